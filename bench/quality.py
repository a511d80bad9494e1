"""Quality checks: 20 checks of a table beside one plain scan of the same columns."""

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from bench.runner import Bound, Measure, Run, require
from loader.contract.check_outcomes import PASSED
from loader.contract.manifest.checks import CheckSpec
from loader.engine.quality.frame_checks import RowChecker
from metadata.domain.sql import quote_identifier

SCAN, CHECKS = "plain scan", "20 checks"
COLUMNS = {
    "id": "id",
    "country": "element_at(array('DE', 'FR', 'IT', 'ES'), CAST(id % 4 + 1 AS INT))",
    "code": "concat('C', lpad(CAST(id % 10000 AS STRING), 4, '0'))",
    "name": "concat('customer ', CAST(id % 100000 AS STRING))",
    "amount": "CAST(id % 1000 AS DECIMAL(12,2))",
    "rate": "CAST(id % 100 AS DOUBLE) / 100",
    "day": "date_add(DATE '2024-01-01', CAST(id % 365 AS INT))",
    "at": "timestamp_seconds(1704067200 + id % 86400)",
}
_CHECKS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("not_null", {"columns": [name]}) for name in COLUMNS),
    ("accepted_values", {"columns": ["country"], "values": ["DE", "FR", "IT", "ES"]}),
    ("range", {"columns": ["amount"], "minimum": "0", "maximum": "1000"}),
    ("range", {"columns": ["rate"], "minimum": "0", "maximum": "1"}),
    ("range", {"columns": ["day"], "minimum": "2024-01-01", "maximum": "2024-12-31"}),
    ("pattern", {"columns": ["code"], "pattern": "C[0-9]{4}"}),
    ("length", {"columns": ["code"], "minimum": "5", "maximum": "5"}),
    ("length", {"columns": ["name"], "maximum": "40"}),
    ("condition", {"condition": "amount >= rate"}),
    ("condition", {"condition": "country <> 'FR' OR amount >= 0"}),
    ("freshness", {"columns": ["at"], "hours": 24}),
    ("row_count", {"minimum": "1"}),
    ("row_count_change", {}),
)


def take(run: Run) -> dict[str, Any]:
    specs = [CheckSpec(str(place), kind, kind, "warn", arguments) for place, (kind, arguments) in enumerate(_CHECKS)]
    place = str(run.folder / "rows")
    rows = run.spark.range(run.options.rows).selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items()))
    rows.write.format("delta").save(place)
    checker = RowChecker(run.spark, str(run.folder), at=datetime(2024, 1, 2, tzinfo=UTC), key=("id",))
    for _ in run.rounds():
        frame = run.spark.read.format("delta").load(place)
        run.timed(SCAN, lambda frame=frame: _scan(frame))
        results = run.timed(CHECKS, lambda frame=frame: checker.check(frame, specs).results)
        require([result.line for result in results if result.outcome != PASSED], [], "failed checks")
    return {}


def _scan(frame: DataFrame) -> None:
    """Read every column, with the least aggregate that needs its values: Delta knows maxima without reading."""
    frame.selectExpr(*(f"count({quote_identifier(name)})" for name in frame.columns)).collect()


MEASURE = Measure(
    take,
    sizes={"rows": 5_000_000},
    rounds=5,
    bounds=(Bound("checks / plain scan", CHECKS, SCAN, 1.5),),
)
