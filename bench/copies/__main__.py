"""Benchmark of copies (``python -m bench.copies``): a rawcore table to PostgreSQL, whole and by changed keys."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from bench.copies.targets import Copy, content_of, write_plainly
from bench.intake.loads import Item, change, fill
from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.processes.meter import metered
from bench.processes.postgres import private_postgres
from bench.processes.session import product_settings, start
from bench.processes.worker import CORES
from bench.report import write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative
from metadata.domain.copies import CHANGES, REPLACE
from metadata.domain.sources.database_locations import DatabasePlace, parse_database

OUTPUT = ROOT / "bench" / "copies_results.json"
PLAIN, TUNED, WHOLE, CHANGED = "plain Spark", "plain Spark, large batches", "copy", "copy by changes"
# Options of the second plain write, which the copy has, too.
LARGE_BATCHES = {"batchsize": "10000", "reWriteBatchedInserts": "true"}
# Measure -> (dividend, divisor, the most that is wanted).
MEASURES = {
    "copy / plain Spark": (WHOLE, PLAIN, 1.3),
    "copy / plain Spark, large batches": (WHOLE, TUNED, 1.3),
    "copy by changes / plain Spark": (CHANGED, PLAIN, 0.05),
}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    folder = PLACE / "copies"
    try:
        with private_postgres(folder) as url:
            place = parse_database(url.replace("postgres://", "postgresql://"))
            result = _measure(options, folder, place)
    except (BenchProblem, OSError, RuntimeError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    write_result(options.output, result)
    for name, seconds in result["seconds"].items():
        print(f"{name:<28} {median(seconds):8.2f} s   of {', '.join(f'{value:.2f}' for value in seconds)}")
    for name, entry in result["measures"].items():
        print(f"{name:<36} {entry['ratio']:.3f}   wanted: at most {entry['wanted']}")
    print(f"written to {relative(options.output)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.copies", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N", help="rows of the table (1000000)")
    parser.add_argument("--changed", type=int, default=1_000, metavar="N", help="rows changed before a round (1000)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds that are counted (5)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/copies_results.json")
    return parser


def _measure(options: argparse.Namespace, folder: Path, place: DatabasePlace) -> dict[str, Any]:
    rows, changed = options.rows, options.changed
    warehouse = str(folder / "warehouse")
    spark = start(product_settings(folder / "warehouse", SPARK_JARS), "copies")
    named = {"host": place.host, "port": place.port, "user": place.user, "dbname": place.name}
    seconds: dict[str, list[float]] = {}

    def timed(name: str, do: Callable[[], Any]) -> Any:
        with metered(spark) as measured:
            result = do()
        seconds.setdefault(name, []).append(measured.seconds)
        print(f"{name}: {measured.seconds:.2f} s", file=sys.stderr, flush=True)
        return result

    try:
        with psycopg.connect(**named, autocommit=True) as server:
            fill(server, rows)
            item = Item(spark, warehouse, place, "item")
            item.load()
            whole = Copy(spark, warehouse, place, item, _key(1), "mart.whole", REPLACE)
            by_changes = Copy(spark, warehouse, place, item, _key(2), "mart.by_changes", CHANGES)
            by_changes.make()
            for _ in range(options.repeats + 1):
                change(server, rows, changed)
                item.load()
                timed(PLAIN, lambda: write_plainly(spark, warehouse, place, item, "plain"))
                timed(TUNED, lambda: write_plainly(spark, warehouse, place, item, "tuned", **LARGE_BATCHES))
                _require(timed(WHOLE, whole.make)["row_count"], rows)
                _require(timed(CHANGED, by_changes.make)["changed"], changed)
                _require(content_of(server, by_changes.table), content_of(server, whole.table))
    finally:
        spark.stop()
    seconds = {name: values[1:] for name, values in seconds.items()}
    return {
        "rows": rows,
        "changed": changed,
        "seconds": seconds,
        "measures": {
            name: {"ratio": round(median(seconds[above]) / median(seconds[below]), 3), "wanted": wanted}
            for name, (above, below, wanted) in MEASURES.items()
        },
    }


def _key(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def _require(value: Any, wanted: Any) -> None:
    if value != wanted:
        raise BenchProblem(f"a copy is wrong: {value} instead of {wanted}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
