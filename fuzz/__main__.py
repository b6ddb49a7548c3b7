"""``python -m fuzz``: run a campaign, repeat a case, write the page."""

from __future__ import annotations

import argparse
import json
import sys

from fuzz.worker import limit_threads


def main(words: list[str] | None = None) -> int:
    """Run what the command line says; return the exit code: 1 if something failed."""
    limit_threads()
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to run (default 1)")
    parser.add_argument("--seed", type=int, help="begin a new campaign with this seed")
    parser.add_argument("--areas", help="names, separated by commas (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0 for this one")
    parser.add_argument("--case", metavar="AREA:K", help="repeat a case, and print it")
    parser.add_argument(
        "--recheck", action="store_true", help="replay kept cases; note mended ones"
    )
    parser.add_argument("--write", action="store_true", help="write docs/trust.md, and run nothing")
    options = parser.parse_args(words)

    from fuzz.areas import AREAS
    from fuzz.page import write_page
    from fuzz.record import Results

    results = Results.read()
    if options.case:
        return repeat(options.case, results.seed if options.seed is None else options.seed)
    if options.recheck:
        recheck()
    elif not options.write:
        from fuzz.campaign import Campaign
        from fuzz.worker import LocalWorker, Worker

        names = options.areas.split(",") if options.areas else list(AREAS)
        unknown = [name for name in names if name not in AREAS]
        if unknown:
            parser.error(f"--areas: expected some of {', '.join(AREAS)}, got {unknown[0]!r}")
        if options.seed is not None and options.seed != results.seed:
            results = Results(seed=options.seed)
        worker = Worker if options.jobs else LocalWorker
        areas = [AREAS[name] for name in names]
        campaign = Campaign(areas, results, jobs=max(1, options.jobs), worker=worker, print=say)
        failures = campaign.run(60.0 * options.minutes)
        write_page()
        return 1 if failures else 0
    write_page()
    return 0


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def repeat(name: str, seed: int) -> int:
    """Run a case in this process, and print its instance."""
    from fuzz.areas import AREAS
    from fuzz.cases import make_instance, run_instance

    area, _, number = name.partition(":")
    if area not in AREAS or not number.isdigit():
        print(f"expected AREA:NUMBER with an area of {', '.join(AREAS)}, got {name!r}")
        return 2
    instance = make_instance(AREAS[area], seed, int(number))
    print(json.dumps(instance))
    found = run_instance(AREAS[area], instance)
    print("passes" if found is None else f"fails: {found.message}")
    return 0 if found is None else 1


def recheck() -> None:
    """Replay the kept cases; those that pass now are noted as mended in this version."""
    from fuzz.record import code_version, kept_cases
    from fuzz.worker import Worker

    worker = Worker()
    for case in kept_cases():
        found, _ = worker.run(case.area, case.seed, case.case, case.instance)
        print(f"{case.name}: {'passes' if found is None else found.message}")
        if found is None and not case.mended:
            case.mended = code_version()
            case.write()
    worker.stop()


if __name__ == "__main__":
    sys.exit(main())
