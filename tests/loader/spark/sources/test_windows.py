"""Loads of a Delta table and of Parquet files from a watermark on.

Which rows a run reads, and when a mark moves, is decided without Spark (tests/loader/domain/sources/test_marks.py);
tests/loader/spark/sources/test_marks.py has deaths, reverts and runs by hand, which do not depend on the format.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from loader.domain.manifest import LoadManifest
from loader.domain.sources.marks import marks_in
from loader.spark import load
from tests.loader.harness import finished
from tests.loader.histories import Kept

pytestmark = pytest.mark.spark

DAY = [f"2024-02-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"id": "integer", "v": "string", "n": "bigint"}


@dataclass
class Lake(Kept):
    """Dataset over a Delta table or Parquet files, whose rows have the number of their last change."""

    intake: Any = None

    @property
    def _feed(self) -> bool:
        return False

    @property
    def location(self) -> Path:
        return self.folder / "lake"

    def deliver(self, rows: list[dict]) -> Path:
        """Replace the rows of the same key, and add the others."""
        values = ", ".join(f"({row['id']}, '{row['v']}', CAST({row['n']} AS BIGINT))" for row in rows)
        known = self._known().where(f"id NOT IN ({', '.join(str(row['id']) for row in rows)})" if rows else "true")
        changed = self.spark.sql(f"SELECT * FROM VALUES {values} t (id, v, n)") if rows else known.limit(0)
        after = known.unionByName(changed).localCheckpoint()
        after.coalesce(1).write.format(self.format).mode("overwrite").save(str(self.location))
        return self.location

    def _known(self):
        if not self.location.exists():
            return self.spark.createDataFrame([], "id INT, v STRING, n BIGINT")
        return self.spark.read.format(self.format).load(str(self.location))

    def manifest(self, path: Path, *, at: str, run_id: str, **options) -> LoadManifest:
        made = super().manifest(path, at=at, run_id=run_id, **options)
        (raw,), (rawcore,) = made.raw, made.rawcore
        inputs = tuple(replace(stage_input, incremental=True) for stage_input in rawcore.inputs)
        raw = replace(raw, source=replace(raw.source, intake=self.intake))
        return replace(made, raw=(raw,), rawcore=(replace(rawcore, inputs=inputs),))

    def run(self, day: int, *rows: tuple[int, str, int], **options: Any) -> dict:
        """Write rows (key, value, number), load them, and return raw's finishing event."""
        delivered = [{"id": id_, "v": v, "n": n} for id_, v, n in rows]
        self.status, _ = self.load(delivered, at=DAY[day], **options)
        if self.status != "succeeded":
            self.sequence -= 1
        return finished(self.events, self.raw_state.key)

    def mark(self) -> str | None:
        marks = marks_in(self.table(self.history_spec).newest_run_commit().notes)
        return marks[self.raw_state.key].values["n"] if marks else None

    def kept(self) -> list[tuple]:
        return [(row["id"], row["v"]) for row in self.current()]


@pytest.fixture(params=["delta", pytest.param("parquet", marks=pytest.mark.nightly)])
def lake(request, spark, tmp_path):
    """Return a function that makes the dataset."""

    def make(**intake: Any) -> Lake:
        given = {"policy": {"input": "delta"}, "format": request.param, "intake": {"watermark": ["n"]} | intake}
        return Lake(spark, tmp_path, columns=COLUMNS, **given)

    return make


def test_a_load_reads_the_rows_from_the_mark_on(lake):
    item = lake(look_back=1)
    first = item.run(1, (1, "a", 1), (2, "b", 2), (3, "c", 5))
    assert (first["counts"]["rows"], first["window"]) == (3, {"from": None, "to": {"n": "5"}})
    second = item.run(2, (1, "A", 6), (4, "d", 4))
    assert (second["counts"]["rows"], second["window"]) == (3, {"from": {"n": "4"}, "to": {"n": "6"}})
    assert (item.kept(), item.mark()) == ([(1, "A"), (2, "b"), (3, "c"), (4, "d")], "6")


def test_a_run_that_dies_between_raw_and_history_loses_no_rows(lake, monkeypatch):
    item = lake()
    item.run(1, (1, "a", 1))
    with monkeypatch.context() as broken:
        broken.setattr(load, "load_rawcore", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        item.run(2, (2, "b", 2))
    assert (item.status, item.mark()) == ("failed", "1")
    assert item.run(3, (3, "c", 3))["counts"]["rows"] == 3
    assert (item.kept(), item.mark()) == ([(1, "a"), (2, "b"), (3, "c")], "3")


def test_a_source_that_went_backwards_and_a_row_without_a_value_are_refused(lake):
    item = lake()
    item.run(1, (1, "a", 7))
    refusal = item.run(2, (1, "a", 5))["error"]
    assert (refusal["code"], refusal["samples"]) == ("WATERMARK_BACKWARDS", ["highest: 5", "mark: 7"])
    item.run(2, (1, "a", 8), (2, "b", "NULL"))
    refusal = finished(item.events, item.raw_state.key)["error"]
    assert (refusal["code"], refusal["column"], item.mark()) == ("NULL_WATERMARK", "n", "7")
