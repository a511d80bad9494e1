"""Benchmark cases: the engines, the histories they are measured on, and the preparation of both."""

from collections.abc import Iterable

from bench.history.case import KEYED, MAIN, SOURCE, Bench, Entry, run_case
from bench.history.plan import Plan, Step
from bench.processes.workers import Failed
from bench.runner import say

# The names of the command line, in the order of the table.
ENGINES = ("ours", "ours_public", "limit", "four_step", "dbt_snapshot", "koheesio", "datacoolie")
SMALL_TABLES = "small_tables"
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


def make_sources(bench: Bench, entries: list[Entry]) -> None:
    """Make the snapshots and expected histories of the entries, then end the process that made them."""
    bench.make(MAIN, range(max(entry.depth for entry in entries) + 2))
    for entry in entries:
        if entry.variant != MAIN:
            bench.make(entry.variant, range(entry.depth + 1, entry.depth + 2), changed_only=entry.variant == DELTA)
        bench.expect(entry.variant, entry.depth + 1)
    bench.close("snapshots")


def measure(bench: Bench, entries: list[Entry], repeats: int) -> list[dict]:
    """Build the histories of the entries, then run them alternately.

    An engine that cannot build its history is recorded as failed; the others continue.
    """
    failures = {}
    for entry in sorted(entries, key=lambda entry: entry.depth):
        try:
            bench.build(entry.engine, entry.depth)
            if entry.label:
                _complete(bench, entry)
        except Failed as failed:
            failures[entry.name] = f"failed: {failed}"
    return run_case(bench, entries, repeats, failures)


def _complete(bench: Bench, entry: Entry) -> None:
    """Save a history with our raw and rawcore tables for entries that load these too."""
    source = bench.snapshot(MAIN, entry.depth, SOURCE)
    bench.worker(entry.engine).ask("complete", label=str(entry.depth), load=entry.depth, source=source)


def plans(rows: int, changed_pct: float, depth: int) -> dict[str, Plan]:
    """Return the main plan, up to the measured load after ``depth``."""
    return {MAIN: Plan.even(rows, changed_pct, depth + 1)}


def shallow_plans(rows: int, changed_pct: float, flat_depth: int) -> dict[str, Plan]:
    """Return the main plan, one with a hundredth of its change, and a small delta on the deepest history."""
    main = plans(rows, changed_pct, flat_depth)
    delta = main[MAIN].upto(flat_depth).then(Step(min(DELTA_KEYS, rows // 2), 0, 0))
    return main | {SMALL_CHANGE: Plan.even(rows, changed_pct / 100, 1), DELTA: delta}


def shallow_entries(flat_depth: int) -> list[Entry]:
    """Return entries for depth 0, the deepest history, the smallest change and the smallest batch."""
    return [
        *(entry for entry in plain_entries(("ours", "limit", "four_step", "dbt_snapshot"), 0) if not entry.label),
        Entry("ours_deep", "ours", flat_depth),
        Entry("ours_small_change", "ours", 0, variant=SMALL_CHANGE),
        Entry("delta_input", "ours", flat_depth, DELTA, "delta"),
    ]


# --- many small tables ---------------------------------------------------------------------------


def small_tables(bench: Bench, tables: int, repeats: int, *, peer: bool = True) -> list[dict]:
    """Measure one of our load runs over all tables, against one ``dbt snapshot`` if ``peer`` is set.

    ``bench`` has a plan for one table.
    """
    names = [f"t{number:03}" for number in range(tables)]
    bench.make(MAIN, range(2))
    bench.expect(MAIN, 1)
    bench.close("snapshots")
    entries = []
    engines = ((SMALL_TABLES, "whole", SOURCE), ("small_tables_dbt_snapshot", "load", KEYED))
    for name, how, kind in engines if peer else engines[:1]:
        bench.start_options[name] = {"names": names}
        entries.append(Entry(name, name, 0, how=how, kind=kind))
    bench.spread(names)
    failures = {}
    for entry in entries:
        try:
            bench.build(entry.engine, 0, how=entry.how, kind=entry.kind)
        except Failed as failed:
            failures[entry.name] = f"failed: {failed}"
    return run_case(bench, entries, repeats, failures)


# --- limits of size ------------------------------------------------------------------------------


def ours_once(bench: Bench) -> dict:
    """Measure one load of ours into the history of the plan of ``bench``."""
    entries = [Entry("ours", "ours", 0)]
    make_sources(bench, entries)
    return measure(bench, entries, 1)[0]


def peak(bench: Bench, engine: str) -> int:
    """Return the peak memory of an engine's process and its JVM, in bytes."""
    return bench.worker(engine).ask("size")["peak_bytes"]


def files(bench: Bench, loads: int) -> dict:
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
    return {"loads": loads, "counted": counted}
