"""The history step beside a yardstick and its peers: one case, or all of them with ``--full``."""

import argparse
from collections.abc import Iterator
from typing import Any

from bench.history import cases
from bench.history.case import Bench
from bench.history.results import (
    CASES,
    CLUSTER,
    DEEP,
    FILES,
    MANY,
    MEMORY,
    SHALLOW,
    SMALL,
    Record,
    case_report,
    measure_table,
    ratio_table,
    table,
    time_ratio,
)
from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.runner import Measure, Run, UsageProblem, number, say
from elevata.bootstrap.places import relative
from tests.services.spark_cluster import running_cluster

MEMORY_ROWS = 5_000_000
FILES_LOADS = 100
SMALL_ROWS = 1000
MANY_TABLES = 50, 500
CLUSTER_ROWS = 1_000_000, 20_000_000
EXECUTOR_MEMORY = "1g"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--depth", type=number(int, 0), default=5, metavar="N", help="loads after the first (5)")
    parser.add_argument(
        "--changed", type=_per_cent, default=10.0, metavar="PCT", help="rows a load changes; deletes, adds a tenth (10)"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {', '.join(cases.NAMES)} (all)")
    parser.add_argument("--full", action="store_true", help="all measures; writes bench/results.json")
    parser.add_argument(
        "--cases",
        nargs="+",
        choices=CASES,
        metavar="CASE",
        help=f"with --full: only these of {', '.join(CASES)}; FILE keeps what it has of the others",
    )
    parser.add_argument("--keep-data", action="store_true", help=f"leave the tables in {relative(PLACE / 'history')}")


def _per_cent(text: str) -> float:
    value = float(text)
    if not 0 < value <= 80:
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most 80, not {text}")
    return value


def check(options: argparse.Namespace) -> None:
    """Check the options, before set-up rather than after: the plan checks that the numbers are consistent."""
    if options.full and options.only:
        raise UsageProblem("--full measures everything: leave --only out")
    if options.cases and not options.full:
        raise UsageProblem("--cases belongs to --full")
    unknown = [name for name in options.only or () if name not in cases.NAMES]
    if unknown:
        raise UsageProblem(f"there is no engine {unknown[0]!r}: choose from {', '.join(cases.NAMES)}")
    options.only = options.only or list(cases.NAMES)
    try:
        cases.shallow_plans(options.rows, options.changed, max(options.depth, cases.FLAT_DEPTH))
    except BenchProblem as problem:
        raise UsageProblem(str(problem)) from problem


def take(run: Run) -> dict[str, Any]:
    options = run.options
    if not options.full:
        results = list(_one_case(options))
        ratios = case_report(options.rows, options.depth, options.changed, results)["ratios"]
        print(f"{table(results)}\n\n{ratio_table(ratios)}")
        return {}
    record = Record(options.output, go_on=bool(options.cases))
    for name, case in _cases(options, options.cases or (SHALLOW, DEEP, SMALL)):
        record.add(name, case)
    for case in record.document()["cases"]:
        if case.get("results"):
            print(f"\n{case['case']}\n{table(case['results'])}")
    print(f"\n{measure_table(record.document()['measures'])}\n\nwritten to {relative(options.output)}")
    return {}


def _one_case(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    entries = cases.plain_entries(options.only, options.depth)
    if entries:
        with _bench(options, cases.plans(options.rows, options.changed, options.depth)) as bench:
            cases.make_sources(bench, entries)
            yield from cases.measure(bench, entries, options.rounds)
    if cases.SMALL_TABLES in options.only:
        with _bench(options, cases.plans(SMALL_ROWS, options.changed, 0)) as bench:
            yield from cases.small_tables(bench, options.tables, options.rounds)


def _bench(options: argparse.Namespace, plans: dict[str, Any], master: str = "") -> Bench:
    return Bench(plans, PLACE / "history", keep=options.keep_data, master=master)


def _cases(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield cases in an order in which histories are built once and then deepened."""
    changed, rounds = options.changed, options.rounds
    small = cases.plans(SMALL_ROWS, changed, 0)
    yield from _large(options, names)
    if SMALL in names:
        say(f"case {SMALL}")
        with _bench(options, small) as bench:
            results = cases.small_tables(bench, options.tables, rounds)
            yield SMALL, case_report(SMALL_ROWS, 0, changed, results) | {"tables": options.tables}
    if MANY in names:
        counted = []
        for tables in MANY_TABLES:
            say(f"case {MANY}: {tables} tables")
            with _bench(options, small) as bench:
                (result,) = cases.small_tables(bench, tables, rounds, peer=False)
                counted.append({"tables": tables, "peak_bytes": cases.peak(bench, cases.SMALL_TABLES)} | result)
        yield MANY, _per_one(counted, "tables")
    if CLUSTER in names:
        counted = []
        for rows in CLUSTER_ROWS:
            say(f"case {CLUSTER}: {rows:,} rows")
            cluster = running_cluster(PLACE / "cluster", memory=EXECUTOR_MEMORY)
            with cluster as master, _bench(options, cases.plans(rows, changed, 0), master) as bench:
                counted.append({"rows": rows} | cases.ours_once(bench))
        yield CLUSTER, _per_one(counted, "rows")
    if MEMORY in names:
        say(f"case {MEMORY}")
        with _bench(options, cases.plans(MEMORY_ROWS, changed, 0)) as bench:
            results = [cases.ours_once(bench)]
            yield MEMORY, {"rows": MEMORY_ROWS, "peak_bytes": cases.peak(bench, "ours"), "results": results}
    if FILES in names:
        say(f"case {FILES}")
        with _bench(options, cases.plans(SMALL_ROWS, changed, FILES_LOADS - 1)) as bench:
            yield FILES, cases.files(bench, FILES_LOADS)


def _per_one(counted: list[dict[str, Any]], per: str) -> dict[str, Any]:
    return {"counted": counted, "results": [], "ratios": {f"time_per_{per[:-1]}": time_ratio(counted, per)}}


def _large(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    entries = {}
    if SHALLOW in names:
        entries[SHALLOW] = 0, cases.shallow_entries(cases.FLAT_DEPTH)
    if DEEP in names:
        entries[DEEP] = options.depth, cases.plain_entries(cases.ENGINES, options.depth)
    if not entries:
        return
    plans = cases.shallow_plans(options.rows, options.changed, max(cases.FLAT_DEPTH, options.depth))
    with _bench(options, plans) as bench:
        cases.make_sources(bench, [entry for _, several in entries.values() for entry in several])
        for name, (depth, several) in entries.items():
            say(f"case {name}")
            results = cases.measure(bench, several, options.rounds)
            yield name, case_report(options.rows, depth, options.changed, results)


MEASURE = Measure(
    "history",
    "Measure the history step beside a yardstick and its peers, on the same snapshots, in turns.",
    take,
    sizes={"rows": 1_000_000, "tables": 100},
    rounds=5,
    options=options,
    check=check,
    is_printed=True,
)
