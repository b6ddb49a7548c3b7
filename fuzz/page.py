"""Write ``docs/trust.md`` from the results and the kept cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.areas import AREAS
from fuzz.record import KEPT, RESULTS, ROOT, KeptCase, Results, kept_cases, write_atomically

__all__ = ["PAGE", "trust_page", "write_page"]

PAGE = ROOT / "docs" / "trust.md"

INTRODUCTION = """\
# Fuzz tests

*`make fuzz` writes this page from `fuzz/results.json` and `tests/fuzz_cases`; do not edit it.*

`make fuzz MINUTES=60` generates small random problems, most with fewer than thirteen items and with
difficult values (zeros, ties, entries from 1e-12 to 1e12, one, two or three items), and compares
the results of the library with slow, simple references: exact fractions, linear and quadratic
programs solved by HiGHS and Clarabel, networkx, scipy, every partition of a small graph. A wrong
result, an unexpected error, an overflow warning, a crash or a hang counts as a failure. Each
failure is minimised, stored in `tests/fuzz_cases`, and replayed by the test suite from then on.
"""

LIMITS = """\
## Limits

- Random problems show that errors are rare; they do not prove that there are none.
- The problems are small. Large ones use other code (blocks, threads, sorting), which the test suite
  compares with the same references, but not thousands of times.
- In comparisons with another solver, both are correct only up to a tolerance (about 1e-6 of the
  largest number involved); problems with a wider range than the other solver can resolve are
  checked for consistency only: a feasible result and a valid lower bound.
- If entries span more than about six powers of ten, `nearest_metric` may stop before it reaches its
  tolerance. It then issues a `ConvergenceWarning`, and its bounds are valid.
- Shortest paths are unique in most data. Where they tie, a gradient is one of several.
- Model files are checked for damage, not for their origin: load only files that you trust.
"""


def trust_page(results: Results, kept: Sequence[KeptCase]) -> str:
    """Return the page."""
    total = sum(counts.cases for counts in results.areas.values())
    seconds = sum(counts.seconds for counts in results.areas.values())
    failures = sum(counts.failures for counts in results.areas.values())
    mended = [case for case in kept if case.mended]
    still = [case for case in kept if not case.mended]
    last = "{date}, version {code}".format(**results.runs[-1]) if results.runs else "none"
    lines = [
        INTRODUCTION,
        f"So far: **{total:,} cases** in {seconds / 3600:.1f} hours of computing; {failures:,} of "
        f"them failed. Of {len(kept)} kinds of failures in this and earlier campaigns, "
        f"{len(mended)} are fixed and {len(still)} open. Last run: {last}.",
        "",
        "| area | cases | failed | hours |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in AREAS:
        counts = results.areas.get(name)
        if counts is not None:
            hours = f"{counts.seconds / 3600:.2f}"
            lines.append(f"| {name} | {counts.cases:,} | {counts.failures:,} | {hours} |")
    lines += ["", "## What is tested and guaranteed", ""]
    for area in AREAS.values():
        lines += [f"**{area.name}.** {area.tried} *Guaranteed:* {area.promised}", ""]
    lines += [LIMITS]
    lines += ["## Fixed failures", "", *listed(mended), ""]
    lines += ["## Open failures", "", *listed(still)]
    return "\n".join(lines).rstrip() + "\n"


def listed(cases: Sequence[KeptCase]) -> Iterator[str]:
    """Yield a line per kept case."""
    if not cases:
        yield "None known."
    for case in cases:
        wrong = case.wrong.rstrip(".").replace("|", "\\|").replace("<", "&lt;")
        mended = f" Fixed in {case.mended}." if case.mended else ""
        yield f"- {case.area}: {wrong} (`{case.area}:{case.case}`, found in {case.code}).{mended}"


def write_page(page: Path = PAGE, results: Path = RESULTS, kept: Path = KEPT) -> None:
    """Write the page."""
    write_atomically(page, trust_page(Results.read(results), list(kept_cases(kept))))
