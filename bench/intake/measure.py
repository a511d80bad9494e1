"""Intake of a PostgreSQL table: whole into raw beside plain Spark, and its changes into history."""

from typing import Any

from bench.intake.loads import Item, change, filled_server, load_plainly
from bench.runner import Bound, Measure, Run, require

PLAIN, INTAKE, FULL, INCREMENTAL = "plain Spark", "intake to raw", "full load", "incremental load"
WARM_UP_ROWS = 10_000


def take(run: Run) -> dict[str, Any]:
    rows, changed, plain = run.options.rows, run.options.changed, str(run.folder / "plain")
    server, place = filled_server(run, rows)
    whole = Item(run.spark, run.warehouse, place, "whole")
    for _ in run.rounds():
        run.timed(PLAIN, lambda: load_plainly(run.spark, place, rows, plain))
        require(run.timed(INTAKE, whole.load_raw)["rows"], rows, "rows of the intake")
    warm = Item(run.spark, run.warehouse, place, "warm", f"id <= {WARM_UP_ROWS}")
    for _ in range(2):  # the JVM compiles what a full and an incremental load need
        warm.load()
    item = Item(run.spark, run.warehouse, place, "item")
    require(run.timed(FULL, item.load)["rows"], rows, "rows of the full load")
    for number in range(1, run.options.rounds + 1):
        change(server, rows, changed)
        # The row with the mark is read again, unless it has changed.
        require(run.timed(INCREMENTAL, item.load)["rows"] - changed in (0, 1), True, "changed rows are loaded")
        require(item.versions(), rows + number * changed, "versions")
    return {}


MEASURE = Measure(
    take,
    sizes={"rows": 5_000_000, "changed": 10_000},
    rounds=3,
    bounds=(
        Bound("intake to raw / plain Spark", INTAKE, PLAIN, 1.3),
        Bound("incremental load / full load", INCREMENTAL, FULL, 0.1),
    ),
)
