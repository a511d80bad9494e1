"""Feed benchmark (``python -m bench.feeds``): a folder of many small files, of which a load reads the new ones."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.history.dataset import Dataset, create_tables, run_load
from bench.problem import BenchProblem
from bench.processes.session import product_settings, start
from bench.report import write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative
from loader.contract.manifest.loads import LoadManifest
from loader.engine.session import dataset_session
from loader.engine.sources.feeds import Feed

OUTPUT = ROOT / "bench" / "feeds_results.json"
WANTED_SECONDS = 5.0
_AT = "2024-01-01T00:00:00+00:00"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="elevata-bench-feeds-"))
    spark = start(product_settings(folder / "warehouse", SPARK_JARS), "feeds")
    try:
        result = _measure(spark, folder, options)
    except (BenchProblem, RuntimeError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    write_result(options.output, result)
    for name, seconds in result["seconds"].items():
        print(f"{name:<20} {', '.join(f'{value:.1f}' for value in seconds)} s")
    print(f"slowest choice {result['slowest_choice']} s   wanted: at most {WANTED_SECONDS} s")
    print(f"written to {relative(options.output)}")
    return 0 if result["slowest_choice"] <= WANTED_SECONDS else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.feeds", description=__doc__)
    parser.add_argument("--files", type=int, default=10_000, metavar="N", help="files seen before (10000)")
    parser.add_argument("--new", type=int, default=10, metavar="N", help="new files of a load (10)")
    parser.add_argument("--loads", type=int, default=5, metavar="N", help="loads of new files (5)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/feeds_results.json")
    return parser


def _measure(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    landing, warehouse = folder / "landing", str(folder / "warehouse")
    landing.mkdir()
    dataset = Dataset("feed", {"id": "integer", "v": "string"}, "id")
    create_tables(spark, warehouse, [dataset])
    load = replace(dataset.raw_load(str(landing), "jsonl"), feed=True)
    _deliver(landing, 0, options.files)
    first = _load(spark, warehouse, load, "r0", options.files)
    print(f"first load of {options.files:,} files: {first:.1f} s", file=sys.stderr, flush=True)
    heap, deciding, loading = [_used_heap(spark)], [], []
    for number in range(1, options.loads + 1):
        _deliver(landing, options.files + (number - 1) * options.new, options.new)
        manifest = _manifest(load, f"r{number}")
        started = time.monotonic()
        feed = Feed.of(dataset_session(spark, user_metadata=""), warehouse, load, manifest)
        deciding.append(time.monotonic() - started)
        if len(feed.files) != options.new:
            raise BenchProblem(f"the feed chose {len(feed.files)} files instead of {options.new}")
        loading.append(_load(spark, warehouse, load, f"r{number}", options.new))
        heap.append(_used_heap(spark))
    return {
        "files": options.files,
        "new": options.new,
        "seconds": {"first load": [first], "choice of new files": deciding, "load of new files": loading},
        "used_heap_mb": heap,
        "slowest_choice": round(max(deciding), 2),
        "wanted": WANTED_SECONDS,
    }


def _deliver(landing: Path, start_: int, count: int) -> None:
    for number in range(start_, start_ + count):
        (landing / f"{number:08d}.jsonl").write_text(json.dumps({"id": number, "v": f"value {number}"}) + "\n")


def _manifest(load: Any, run_id: str) -> LoadManifest:
    return LoadManifest(run_id, _AT, 1, (load,), ())


def _load(spark: SparkSession, warehouse: str, load: Any, run_id: str, files: int) -> float:
    """Load the new files into raw; return the seconds."""
    started = time.monotonic()
    events = run_load(spark, warehouse, _manifest(load, run_id))
    seconds = time.monotonic() - started
    finished = next(event for event in events if event["event"] == "dataset_finished")
    if finished["counts"].get("files") != files:
        raise BenchProblem(f"the load read {finished['counts']} instead of {files} files")
    return seconds


def _used_heap(spark: SparkSession) -> int:
    """Return the used heap after a garbage collection, in megabytes."""
    spark._jvm.System.gc()
    runtime = spark._jvm.Runtime.getRuntime()
    return round((runtime.totalMemory() - runtime.freeMemory()) / 1e6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
