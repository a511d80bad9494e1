"""Quality benchmark (``python -m bench.quality``): 20 checks of a table beside one plain scan of the same columns."""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame

from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.processes.meter import measure
from bench.processes.session import product_settings, start
from bench.processes.worker import CORES
from bench.report import write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative
from loader.contract.check_results import PASSED
from loader.contract.manifest.checks import CheckSpec
from loader.engine.quality.frame_checks import RowChecker
from metadata.domain.sql import quote_identifier

OUTPUT = ROOT / "bench" / "quality_results.json"
WANTED = 1.5
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


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    try:
        result = _measure(options, PLACE / "quality")
    except (BenchProblem, OSError, RuntimeError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    write_result(options.output, result)
    for name, seconds in result["seconds"].items():
        print(f"{name:<12} {median(seconds):8.2f} s   of {', '.join(f'{value:.2f}' for value in seconds)}")
    print(f"checks / plain scan {result['ratio']:.3f}   wanted: at most {WANTED}")
    print(f"written to {relative(options.output)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, metavar="N", help="rows of the table (5000000)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds that are counted (5)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/quality_results.json")
    return parser


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    spark = start(product_settings(folder / "warehouse", SPARK_JARS), "quality")
    seconds: dict[str, list[float]] = {"plain scan": [], "20 checks": []}
    specs = [CheckSpec(str(place), kind, kind, "warn", arguments) for place, (kind, arguments) in enumerate(_CHECKS)]
    try:
        place = str(folder / "rows")
        rows = spark.range(options.rows).selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items()))
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(place)
        checker = RowChecker(spark, str(folder), at=datetime(2024, 1, 2, tzinfo=UTC), key=("id",))
        for _ in range(options.repeats + 1):
            frame = spark.read.format("delta").load(place)
            with measure(spark) as measured:
                _scan(frame)
            seconds["plain scan"].append(measured.seconds)
            with measure(spark) as measured:
                results = checker.check(frame, specs).results
            seconds["20 checks"].append(measured.seconds)
            failed = [result.line for result in results if result.outcome != PASSED]
            if failed:
                raise BenchProblem(f"checks failed: {'; '.join(failed)}")
    finally:
        spark.stop()
    counted = {name: values[1:] for name, values in seconds.items()}
    ratio = median(counted["20 checks"]) / median(counted["plain scan"])
    return {
        "rows": options.rows,
        "seconds": counted,
        "ratio": round(ratio, 3),
        "wanted": WANTED,
    }


def _scan(frame: DataFrame) -> None:
    """Read every column, with the least aggregate that needs its values: Delta knows maxima without reading."""
    frame.selectExpr(*(f"count({quote_identifier(name)})" for name in frame.columns)).collect()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
