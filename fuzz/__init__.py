"""Random instances against slow references: ``python -m fuzz --minutes 10``.

A *case* is a number: case k of an area is made from (campaign seed, area, k) alone, so that
``python -m fuzz --case paths:1234`` repeats it. Cases run in worker processes; a wrong answer, an
unexpected error, a crash and a hang are failures. A failure is minimised and kept as a file in
``tests/fuzz_cases``, which the test suite replays. ``fuzz/results.json`` counts what was tried, the
next run goes on from there, and ``docs/trust.md`` is written from it.

A new area is one module in ``fuzz/areas`` and a line in its table.
"""
