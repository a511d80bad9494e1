"""Feeds: a folder of many small files, of which a load reads the new ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.history.dataset import Dataset, create_tables, run_load
from bench.runner import Bound, Measure, Run, require
from loader.contract.manifest.loads import LoadManifest
from loader.engine.session import dataset_session
from loader.engine.sources.feeds import Feed

FIRST, CHOICE, LOAD = "first load", "choice of new files", "load of new files"


def take(run: Run) -> dict[str, Any]:
    options, landing = run.options, run.folder / "landing"
    landing.mkdir()
    dataset = Dataset("feed", {"id": "integer", "v": "string"}, "id")
    create_tables(run.spark, run.warehouse, [dataset])
    load = replace(dataset.raw_load(str(landing), "jsonl"), feed=True)

    def load_files(side: str, number: int, count: int) -> None:
        manifest = _manifest(load, number)
        finished = run.timed(side, lambda: run_load(run.spark, run.warehouse, manifest))
        require(finished[load.dataset]["counts"].get("files"), count, "files of the load")

    def choose(number: int) -> Feed:
        return Feed.of(dataset_session(run.spark, user_metadata=""), run.warehouse, load, _manifest(load, number))

    _deliver(landing, 0, options.files)
    load_files(FIRST, 0, options.files)
    heap = [_used_heap(run)]
    for number in range(1, options.loads + 1):
        _deliver(landing, options.files + (number - 1) * options.new, options.new)
        feed = run.timed(CHOICE, lambda number=number: choose(number))
        require(len(feed.files), options.new, "chosen files")
        load_files(LOAD, number, options.new)
        heap.append(_used_heap(run))
    return {"used_heap_mb": heap}


def _deliver(landing: Path, first: int, count: int) -> None:
    for number in range(first, first + count):
        (landing / f"{number:08d}.jsonl").write_text(json.dumps({"id": number, "v": f"value {number}"}) + "\n")


def _manifest(load: Any, number: int) -> LoadManifest:
    return LoadManifest(f"r{number}", "2024-01-01T00:00:00+00:00", 1, (load,), ())


def _used_heap(run: Run) -> int:
    """Return the used heap after a garbage collection, in megabytes."""
    run.spark._jvm.System.gc()
    runtime = run.spark._jvm.Runtime.getRuntime()
    return round((runtime.totalMemory() - runtime.freeMemory()) / 1e6)


MEASURE = Measure(
    take,
    sizes={"files": 10_000, "new": 10, "loads": 5},
    bounds=(Bound("slowest choice of new files", CHOICE, at_most=5, statistic=max),),
)
