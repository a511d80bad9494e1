"""Intake benchmark (``python -m bench.intake``): a table of PostgreSQL into raw, and its changes into history."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from bench.intake.loads import Item, change, fill, load_plainly
from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.processes.meter import measure
from bench.processes.postgres import private_postgres
from bench.processes.session import product_settings, start
from bench.processes.worker import CORES
from bench.report import write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative
from metadata.domain.sources.database_locations import DatabasePlace, parse_database

OUTPUT = ROOT / "bench" / "intake_results.json"
WARM_UP_ROWS = 10_000
# Measure -> (dividend, divisor, the most that is wanted).
MEASURES = {
    "intake to raw / plain Spark": ("intake to raw", "plain Spark", 1.3),
    "incremental load / full load": ("incremental load", "full load", 0.1),
}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    folder = PLACE / "intake"
    try:
        with private_postgres(folder) as url:
            place = parse_database(url.replace("postgres://", "postgresql://"))
            result = _measure(options, folder, place)
    except (BenchProblem, OSError, RuntimeError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    write_result(options.output, result)
    for name, seconds in result["seconds"].items():
        print(f"{name:<18} {median(seconds):8.1f} s   of {', '.join(f'{value:.1f}' for value in seconds)}")
    for name, entry in result["measures"].items():
        print(f"{name:<30} {entry['ratio']:.3f}   wanted: at most {entry['wanted']}")
    print(f"written to {relative(options.output)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.intake", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, metavar="N", help="rows of the table (5000000)")
    parser.add_argument("--changed", type=int, default=10_000, metavar="N", help="rows changed before a load (10000)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="rounds that are counted (3)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/intake_results.json")
    return parser


def _measure(options: argparse.Namespace, folder: Path, place: DatabasePlace) -> dict[str, Any]:
    rows, changed = options.rows, options.changed
    spark = start(product_settings(folder / "warehouse", SPARK_JARS), "intake")
    named = {"host": place.host, "port": place.port, "user": place.user, "dbname": place.name}
    seconds: dict[str, list[float]] = {}
    warehouse, plain = str(folder / "warehouse"), str(folder / "plain")

    def timed(name: str, do: Callable[[], Any]) -> Any:
        with measure(spark) as measured:
            result = do()
        seconds.setdefault(name, []).append(measured.seconds)
        _say(f"{name}: {measured.seconds:.1f} s")
        return result

    try:
        with psycopg.connect(**named, autocommit=True) as server:
            _say(f"{rows:,} rows")
            fill(server, rows)
            whole = Item(spark, warehouse, place, "whole")
            for _ in range(options.repeats + 1):
                timed("plain Spark", lambda: load_plainly(spark, place, rows, plain))
                _require(timed("intake to raw", whole.load_raw)["rows"], rows)
            seconds = {name: values[1:] for name, values in seconds.items()}
            _warm_up(Item(spark, warehouse, place, "warm", f"id <= {WARM_UP_ROWS}"))
            item = Item(spark, warehouse, place, "item")
            _require(timed("full load", item.load)["rows"], rows)
            for number in range(1, options.repeats + 1):
                change(server, rows, changed)
                # The row with the mark is read again, unless it has changed.
                _require(timed("incremental load", item.load)["rows"] - changed in (0, 1), True)
                _require(item.versions(), rows + number * changed)
    finally:
        spark.stop()
    return {
        "rows": rows,
        "changed": changed,
        "seconds": seconds,
        "measures": {
            name: {"ratio": round(median(seconds[above]) / median(seconds[below]), 3), "wanted": wanted}
            for name, (above, below, wanted) in MEASURES.items()
        },
    }


def _warm_up(item: Item) -> None:
    """Run a full and an incremental load of few rows, so that the JVM has compiled what both need."""
    item.load()
    item.load()


def _require(value: Any, wanted: Any) -> None:
    if value != wanted:
        raise BenchProblem(f"a load is wrong: {value} instead of {wanted}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
