"""The history step beside a yardstick and its peers, on the same snapshots, in turns.

Measures one case, or those of ``--full``.
"""

import argparse
import json
from typing import Any

from bench.history import cases
from bench.history.case import Bench
from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.report import machine, now
from bench.runner import Bound, Measure, Run, UsageProblem, number, say
from elevata.bootstrap.places import relative
from tests.services.spark_cluster import running_cluster

SHALLOW, DEEP, SMALL = "shallow", "deep", "small"
MANY, CLUSTER, MEMORY, FILES = "many", "cluster", "memory", "files"
USUAL = (SHALLOW, DEEP, SMALL)
CASES = (*USUAL, MANY, CLUSTER, MEMORY, FILES)
SMALL_ROWS = 1000
MANY_TABLES = 50, 500
CLUSTER_ROWS = 1_000_000, 20_000_000
MEMORY_ROWS = 5_000_000
FILES_LOADS = 100
EXECUTOR_MEMORY = "1g"


def _one_of(case: str, count: int) -> str:
    """Return the side with the times of one table or one row of a case that has this many."""
    return f"{case}: one of {count:,}"


BOUNDS = (
    Bound("ours against the limit, depth 5", "deep: ours", "deep: limit", at_most=1.7),
    Bound("four_step against ours, depth 0", "shallow: four_step", "shallow: ours", at_least=3),
    Bound("four_step against ours, depth 5", "deep: four_step", "deep: ours", at_least=3),
    Bound("dbt_snapshot against ours, depth 0", "shallow: dbt_snapshot", "shallow: ours", at_least=2),
    Bound("dbt_snapshot against ours, depth 5", "deep: dbt_snapshot", "deep: ours", at_least=2),
    Bound("koheesio against ours, depth 5", "deep: koheesio", "deep: ours", at_least=1.5),
    Bound("datacoolie against ours, depth 5", "deep: datacoolie", "deep: ours", at_least=1.5),
    Bound("whole load against the limit, depth 5", "deep: whole_load", "deep: limit", at_most=2.5),
    Bound("ours at depth 20 against depth 0", "shallow: ours_deep", "shallow: ours", at_most=1.15),
    Bound("ours at a hundredth of the change", "shallow: ours_small_change", "shallow: ours", at_most=0.6),
    Bound(
        "small tables, dbt snapshot against ours",
        f"small: {cases.DBT_SMALL_TABLES}",
        f"small: {cases.SMALL_TABLES}",
        at_least=4,
    ),
    Bound("delta input of 1,000 keys, seconds", "shallow: delta_input", at_most=4),
    Bound(
        "500 tables against 50, time per table",
        _one_of(MANY, MANY_TABLES[1]),
        _one_of(MANY, MANY_TABLES[0]),
        at_most=1.2,
    ),
    Bound(
        "20,000,000 keys on a cluster against 1,000,000, time per row",
        _one_of(CLUSTER, CLUSTER_ROWS[1]),
        _one_of(CLUSTER, CLUSTER_ROWS[0]),
        at_most=1.5,
    ),
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--depth", type=number(int, 0), default=5, metavar="N", help="loads after the first (5)")
    parser.add_argument(
        "--changed", type=_per_cent, default=10.0, metavar="PCT", help="rows a load changes; deletes, adds a tenth (10)"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {', '.join(cases.NAMES)} (all)")
    parser.add_argument("--full", action="store_true", help="the cases shallow, deep and small, or those of --cases")
    chosen = f"of {', '.join(CASES)}; FILE keeps its results of the others"
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", help=chosen)
    parser.add_argument("--keep-data", action="store_true", help=f"leave the tables in {relative(PLACE / 'history')}")


def _per_cent(text: str) -> float:
    value = float(text)
    if not 0 < value <= 80:
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most 80, not {text}")
    return value


def check(options: argparse.Namespace) -> None:
    """Check the options, before set-up rather than after: the plan checks that the numbers are consistent."""
    if options.full and options.only:
        raise UsageProblem("--full measures all engines: leave --only out")
    if options.cases and not options.full:
        raise UsageProblem("--cases belongs to --full")
    unknown = [name for name in options.only or () if name not in cases.NAMES]
    if unknown:
        raise UsageProblem(f"there is no engine {unknown[0]!r}: choose from {', '.join(cases.NAMES)}")
    options.only = options.only or list(cases.NAMES)
    if not options.full and options.output == MEASURE.output:
        options.output = None  # one case is no result of the repository
    try:
        cases.large_plans(options.rows, options.changed, options.depth)
    except BenchProblem as problem:
        raise UsageProblem(str(problem)) from problem


def take(run: Run) -> dict[str, Any]:
    if run.options.full:
        return _full(run)
    entries = cases.plain_entries(run.options.only, run.options.depth)
    if entries:
        with _bench(run, cases.plans(run.options.rows, run.options.changed, run.options.depth)) as bench:
            cases.make_sources(bench, entries)
            cases.build_and_run(run, bench, entries, run.options.rounds)
    if cases.SMALL_TABLES in run.options.only:
        with _bench(run, cases.plans(SMALL_ROWS, run.options.changed, 0)) as bench:
            cases.small_tables(run, bench, run.options.tables)
    peers = [side for side in (run.costs | run.wrong) if side not in ("ours", cases.SMALL_TABLES)]
    ours = {cases.DBT_SMALL_TABLES: cases.SMALL_TABLES}
    run.bounds = [Bound(f"{side} / {ours.get(side, 'ours')}", side, ours.get(side, "ours")) for side in peers]
    return {"depth": run.options.depth, "changed_pct": run.options.changed}


def _bench(run: Run, plans: dict[str, Any], master: str = "") -> Bench:
    return Bench(plans, PLACE / "history", keep=run.options.keep_data, master=master)


def _full(run: Run) -> dict[str, Any]:
    """Measure the cases in an order in which histories are built once and then deepened; save each at its end."""
    options, chosen = run.options, run.options.cases or USUAL
    small = cases.plans(SMALL_ROWS, options.changed, 0)
    facts = {"cases": _measured_before(run, chosen) if options.cases else {}}

    def end(case: str, **about: Any) -> None:
        facts["cases"][case] = {"measured_at": now(), "machine": machine(), "changed_pct": options.changed} | about
        run.save(facts)

    _large(run, [case for case in (SHALLOW, DEEP) if case in chosen], end)
    for case in (case for case in CASES if case in chosen and case not in (SHALLOW, DEEP)):
        say(f"case {case}")
        if case == SMALL:
            with _bench(run, small) as bench:
                cases.small_tables(run, bench, options.tables, case)
            end(case, rows=SMALL_ROWS, tables=options.tables)
        if case == MANY:
            peaks = {}
            for tables in MANY_TABLES:
                with _bench(run, small) as bench:
                    cases.small_tables(run, bench, tables, f"{case} {tables}", peer=False)
                    peaks[tables] = cases.peak(bench, cases.SMALL_TABLES)
                _per_one(run, case, cases.SMALL_TABLES, tables)
            end(case, peak_bytes=peaks)
        if case == CLUSTER:
            for rows in CLUSTER_ROWS:
                cluster = running_cluster(PLACE / "cluster", memory=EXECUTOR_MEMORY)
                with cluster as master, _bench(run, cases.plans(rows, options.changed, 0), master) as bench:
                    cases.ours_once(run, bench, f"{case} {rows}")
                _per_one(run, case, "ours", rows)
            end(case)
        if case == MEMORY:
            with _bench(run, cases.plans(MEMORY_ROWS, options.changed, 0)) as bench:
                end(case, rows=MEMORY_ROWS, peak_bytes=cases.ours_once(run, bench, case))
        if case == FILES:
            with _bench(run, cases.plans(SMALL_ROWS, options.changed, FILES_LOADS - 1)) as bench:
                end(case, counted=cases.files(bench, FILES_LOADS))
    return facts


def _large(run: Run, chosen: list[str], end: Any) -> None:
    options = run.options
    entries = {SHALLOW: cases.shallow_entries(), DEEP: cases.plain_entries(cases.ENGINES, options.depth)}
    if not chosen:
        return
    with _bench(run, cases.large_plans(options.rows, options.changed, options.depth)) as bench:
        cases.make_sources(bench, [entry for case in chosen for entry in entries[case]])
        for case in chosen:
            say(f"case {case}")
            cases.build_and_run(run, bench, entries[case], options.rounds, case)
            end(case, rows=options.rows, depth=0 if case == SHALLOW else options.depth)


def _per_one(run: Run, case: str, engine: str, count: int) -> None:
    """Record an engine's times for one of ``count`` tables or rows, in milliseconds, or why the engine is wrong."""
    side, part = f"{case} {count}: {engine}", _one_of(case, count)
    if side in run.wrong:
        run.wrong[part] = run.wrong[side]
    else:
        run.costs[part] = [(1000 * seconds / count, 1000 * processor / count) for seconds, processor in run.costs[side]]


def _measured_before(run: Run, chosen: list[str]) -> dict[str, Any]:
    """Take the other cases from the file, and return what it has about them."""
    path = run.options.output
    if not path.exists():
        return {}
    try:
        known = json.loads(path.read_text())
        kept = {case: about for case, about in known["cases"].items() if case not in chosen}
        # A file in which no side was recorded has no times.
        processors = known.get("processor_seconds", {})
        for side, seconds in known.get("seconds", {}).items():
            if side.partition(":")[0].partition(" ")[0] in kept:
                processor = processors[side]
                run.costs[side] = [(value, processor[min(n, len(processor) - 1)]) for n, value in enumerate(seconds)]
        wrong = known.get("wrong", {}).items()
        run.wrong |= {side: reason for side, reason in wrong if side.partition(":")[0].partition(" ")[0] in kept}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchProblem(f"{path} is no results file of this benchmark: move it away") from error
    return kept


MEASURE = Measure(
    take,
    sizes={"rows": 1_000_000, "tables": 100},
    rounds=5,
    bounds=BOUNDS,
    options=options,
    check=check,
    file="results.json",
)
