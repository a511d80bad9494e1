"""Command line: one case, or all measures with ``--full``.

Errors are one line on standard error; ``--json`` prints exactly one JSON document on standard output.
"""

import argparse
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from bench import full
from bench.history import cases
from bench.history.case import Bench
from bench.measures import CASES, FILES, MEMORY
from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.processes.workers import Failed
from bench.report import case_report, measure_table, ratio_table, table
from elevata.bootstrap.places import ROOT, relative

RESULTS = ROOT / "bench" / "results.json"
FAILED, INVALID, INTERRUPTED = 1, 4, 130


class UsageProblem(BenchProblem):
    """Invalid command-line arguments."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageProblem(f"{message}; see {self.prog} --help")


def main(arguments: list[str]) -> int:
    """Run the command; the exit codes are those of ``manage.py``'s commands."""
    try:
        with _one_line_end():
            options = parse(arguments)
            return _run(options)
    except SystemExit as end:
        return int(end.code or 0)
    except UsageProblem as problem:
        return _end(INVALID, "usage", str(problem), arguments)
    except (BenchProblem, Failed, OSError) as problem:
        return _end(FAILED, "failed", str(problem), arguments)
    except KeyboardInterrupt:
        return _end(INTERRUPTED, "interrupted", "interrupted", arguments)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the checked options; raise UsageProblem with a one-line message."""
    options = _parser().parse_args(arguments)
    if options.full and options.only:
        raise UsageProblem("--full measures everything: leave --only out")
    if not options.full and (options.memory or options.files or options.cases):
        raise UsageProblem("--cases, --memory and --files belong to --full")
    unknown = [name for name in options.only or () if name not in cases.NAMES]
    if unknown:
        raise UsageProblem(f"there is no engine {unknown[0]!r}: choose from {', '.join(cases.NAMES)}")
    options.only = options.only or list(cases.NAMES)
    # The plan checks that the numbers are consistent; before set-up rather than after.
    try:
        cases.shallow_plans(options.rows, options.changed, max(options.depth, options.flat_depth))
    except BenchProblem as problem:
        raise UsageProblem(str(problem)) from problem
    return options


def _parser() -> Parser:
    parser = Parser(
        prog="python -m bench",
        description="Measure the history step beside a yardstick and its peers, on the same snapshots, in turns.",
    )
    parser.add_argument("--rows", type=_number(1), default=1_000_000, metavar="N", help="rows (1000000)")
    parser.add_argument("--depth", type=_number(0), default=5, metavar="N", help="loads after the first (5)")
    parser.add_argument(
        "--changed",
        type=_per_cent,
        default=10.0,
        metavar="PCT",
        help="per cent of the rows changed by a load; a tenth of it is deleted, a tenth is new (10)",
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {', '.join(cases.NAMES)} (all)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--repeats", type=_number(1), default=5, metavar="N", help="loads that are counted (5)")
    parser.add_argument("--tables", type=_number(1), default=100, metavar="N", help="tables of small_tables (100)")
    parser.add_argument("--full", action="store_true", help="all measures; writes bench/results.json")
    parser.add_argument(
        "--cases",
        nargs="+",
        choices=CASES,
        metavar="CASE",
        help=f"with --full: measure only these of {', '.join(CASES)}; FILE keeps what it has of the others",
    )
    parser.add_argument("--memory", action="store_true", help="with --full: also 5,000,000 keys in 4 GB")
    parser.add_argument("--files", action="store_true", help="with --full: also the files after 100 loads")
    parser.add_argument(
        "--flat-depth", type=_number(1), default=cases.FLAT_DEPTH, metavar="N", help="with --full: longest history (20)"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE", help="where --full writes its results")
    parser.add_argument("--keep-data", action="store_true", help=f"leave the tables in {relative(PLACE / 'data')}")
    return parser


def _number(least: int):
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
        return value

    return number


def _per_cent(text: str) -> float:
    value = float(text)
    if not 0 < value <= 80:
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most 80, not {text}")
    return value


def _run(options: argparse.Namespace) -> int:
    with _alone():
        work = PLACE / "data"
        return _run_full(options, work) if options.full else _run_case(options, work)


def _run_full(options: argparse.Namespace, work: Path) -> int:
    size = full.Size(
        rows=options.rows,
        depth=options.depth,
        flat_depth=options.flat_depth,
        changed_pct=options.changed,
        tables=options.tables,
        repeats=options.repeats,
        cases=_cases(options),
    )
    record = full.Record(options.output, go_on=bool(options.cases))
    document = full.run(size, work, record, keep=options.keep_data)
    if options.json:
        print(json.dumps(document, indent=2))
        return 0
    for case in document["cases"]:
        if "results" in case:
            print(f"\n{case['case']}\n{table(case['results'])}")
    print(f"\n{measure_table(document['measures'])}\n\nwritten to {relative(options.output)}")
    return 0


def _cases(options: argparse.Namespace) -> tuple[str, ...]:
    if options.cases:
        return tuple(options.cases)
    return (*full.Size.cases, *([MEMORY] if options.memory else []), *([FILES] if options.files else []))


def _run_case(options: argparse.Namespace, work: Path) -> int:
    results = []
    entries = cases.plain_entries(options.only, options.depth)
    if entries:
        plans = cases.plans(options.rows, options.changed, options.depth)
        with Bench(plans, work, keep=options.keep_data) as bench:
            cases.make_sources(bench, entries)
            results += cases.measure(bench, entries, options.repeats)
    if cases.SMALL_TABLES in options.only:
        with Bench(cases.plans(full.SMALL_ROWS, options.changed, 0), work, keep=options.keep_data) as bench:
            results += cases.small_tables(bench, options.tables, options.repeats)
    report = case_report(options.rows, options.depth, options.changed, results)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{table(results)}\n\n{ratio_table(report['ratios'])}")
    return 0


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Allow one benchmark at a time in a checkout, since two would disturb each other's measurements."""
    PLACE.mkdir(parents=True, exist_ok=True)
    folder = os.open(PLACE, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchProblem("another benchmark is running in this checkout") from None
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def _one_line_end() -> Iterator[None]:
    """Convert unexpected exceptions into a one-line error."""
    try:
        yield
    except (BenchProblem, Failed, OSError, SystemExit, KeyboardInterrupt):
        raise
    except Exception as error:
        raise BenchProblem(f"{type(error).__name__}: {error} (an error of the program)") from error


def _end(code: int, word: str, message: str, arguments: list[str]) -> int:
    line = " ".join(message.split())
    print(f"bench: {line}", file=sys.stderr)
    if "--json" in arguments:
        print(json.dumps({"error": {"code": word, "message": line}}, indent=2))
    return code
