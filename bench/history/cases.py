"""Cases of the history step: the engines, the histories they are measured on, and the preparation of both."""

from collections.abc import Iterable
from typing import Any

from bench.history.case import MAIN, SOURCE, Bench, Entry, run_case
from bench.history.plan import Plan, Step
from bench.processes.workers import Failed
from bench.runner import Run, say

# The names of the command line, in the order of the table.
ENGINES = ("ours", "ours_public", "limit", "four_step", "dbt_snapshot", "koheesio", "datacoolie")
SMALL_TABLES, DBT_SMALL_TABLES = "small_tables", "small_tables_dbt_snapshot"
NAMES = (*ENGINES, SMALL_TABLES)

SMALL_CHANGE, DELTA = "small_change", "delta"
DELTA_KEYS = 1000
FLAT_DEPTH = 20
FILES_COUNTED_EVERY = 10


def plain_entries(names: Iterable[str], depth: int) -> list[Entry]:
    """Return an entry for each engine, and one for our whole load beside ours."""
    entries = [Entry(name, name, depth) for name in ENGINES if name in names]
    if "ours" in names:
        entries.insert(1, Entry("whole_load", "ours", depth, how="whole", kind=SOURCE, label=f"{depth}-whole"))
    return entries


def shallow_entries() -> list[Entry]:
    """Return entries for depth 0, the deepest history, the smallest change and the smallest batch."""
    return [
        *(entry for entry in plain_entries(("ours", "limit", "four_step", "dbt_snapshot"), 0) if not entry.label),
        Entry("ours_deep", "ours", FLAT_DEPTH),
        Entry("ours_small_change", "ours", 0, variant=SMALL_CHANGE),
        Entry("delta_input", "ours", FLAT_DEPTH, DELTA, "delta"),
    ]


def plans(rows: int, changed_pct: float, depth: int) -> dict[str, Plan]:
    """Return the main plan, up to the measured load after ``depth``."""
    return {MAIN: Plan.even(rows, changed_pct, depth + 1)}


def large_plans(rows: int, changed_pct: float, depth: int) -> dict[str, Plan]:
    """Return the main plan, one with a hundredth of its change, and a small delta on the deepest history."""
    main = plans(rows, changed_pct, max(FLAT_DEPTH, depth))
    delta = main[MAIN].upto(FLAT_DEPTH).then(Step(min(DELTA_KEYS, rows // 2), 0, 0))
    return main | {SMALL_CHANGE: Plan.even(rows, changed_pct / 100, 1), DELTA: delta}


def make_sources(bench: Bench, entries: list[Entry]) -> None:
    """Make the snapshots and expected histories of the entries, then end the process that made them."""
    bench.make(MAIN, range(max(entry.depth for entry in entries) + 2))
    for entry in entries:
        if entry.variant != MAIN:
            bench.make(entry.variant, range(entry.depth + 1, entry.depth + 2), changed_only=entry.variant == DELTA)
        bench.expect(entry.variant, entry.depth + 1)
    bench.close("snapshots")


def build_and_run(run: Run, bench: Bench, entries: list[Entry], rounds: int, case: str = "") -> None:
    """Build the histories of the entries, then run them alternately.

    An engine that cannot build its history is recorded as failed; the others continue.
    """
    for entry in sorted(entries, key=lambda entry: entry.depth):
        try:
            bench.build(entry.engine, entry.depth, **entry.building)
            if entry.label:
                # A history with our raw and rawcore tables, for the entry that loads these too.
                source = bench.snapshot(MAIN, entry.depth, SOURCE)
                bench.worker(entry.engine).ask("complete", label=str(entry.depth), load=entry.depth, source=source)
        except Failed as failed:
            run.wrong[f"{case}: {entry.name}" if case else entry.name] = f"failed: {failed}"
    run_case(run, bench, entries, rounds, case)


def small_tables(run: Run, bench: Bench, tables: int, case: str = "", *, peer: bool = True) -> None:
    """Measure one of our load runs over all tables, against one ``dbt snapshot`` if ``peer`` is set.

    ``bench`` has a plan for one table.
    """
    names = [f"t{number:03}" for number in range(tables)]
    bench.make(MAIN, range(2))
    bench.expect(MAIN, 1)
    bench.close("snapshots")
    bench.spread(names)
    entries = [Entry(SMALL_TABLES, SMALL_TABLES, 0, how="whole", kind=SOURCE)]
    entries += [Entry(DBT_SMALL_TABLES, DBT_SMALL_TABLES, 0)] if peer else []
    bench.start_options |= {entry.engine: {"names": names} for entry in entries}
    build_and_run(run, bench, entries, run.options.rounds, case)


def ours_once(run: Run, bench: Bench, case: str) -> int:
    """Measure one load of ours into the history of the plan of ``bench``; return the peak memory in bytes."""
    entries = [Entry("ours", "ours", 0)]
    make_sources(bench, entries)
    build_and_run(run, bench, entries, 1, case)
    return peak(bench, "ours")


def peak(bench: Bench, engine: str) -> int:
    """Return the peak memory of an engine's process and its JVM, in bytes."""
    return bench.worker(engine).ask("size")["peak_bytes"]


def files(bench: Bench, loads: int) -> list[dict[str, Any]]:
    """Count the files of a small table after loads; ``bench`` has a plan of that many loads."""
    bench.make(MAIN, range(loads + 1))
    bench.close("snapshots")
    counted = []
    for load in range(loads + 1):
        bench.load(Entry("ours", "ours", load, how="whole", kind=SOURCE), load, restore=None)
        bench.worker("ours").ask("keep_house")
        if load % FILES_COUNTED_EVERY == 0:
            counted.append({"loads": load} | bench.worker("ours").ask("files"))
            say(f"{load} loads: {counted[-1]['live_files']} files")
    return counted
