"""Reads and exports of a table that another Spark session alters at any moment of the read.

The answer is that of one version of the table, from before or from after, or an error that names the table.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.contract.manifest.reads import QuerySource, ReadManifest
from loader.contract.refusals import Refusal
from loader.engine.java_errors import accident
from loader.engine.queries import exports
from loader.engine.queries.reads import read
from loader.engine.tables.tables import DeltaTable
from tests.loader.harness import Dataset

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=20)]

DAY = ["2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00"]
LOADS = tuple(([{"id": n, "v": f"{n % part}"} for n in range(12)], day) for part, day in zip((3, 4), DAY, strict=True))
QUERY = "SELECT (SELECT count(*) FROM t) AS rows, (SELECT max(v) FROM t) AS v, * FROM t ORDER BY id"
MODEL = "SELECT CAST(id AS int) AS id, v FROM t"
# Codes of errors about missing files of a table.
CLEAR = {"TABLE_MOVED", "SQL_FAILED", "FILE_MISSING", "BEYOND_RETENTION"}
KINDS = ("sample", "export", "export of changes", "changes", "compare", "profile", "sql", "try_model", "origin")
Alter = Callable[[DeltaTable], None]


@dataclass
class Reading:
    """One read of a dataset, and the table that it reads."""

    item: Dataset
    kind: str

    @property
    def path(self) -> Path:
        return self.item.folder / "rows.csv"

    @property
    def spec(self) -> TableSpec:
        if self.kind in ("export", "sql", "try_model"):
            return self.item.rawcore_spec
        return self.item.tables()[0] if self.kind == "origin" else self.item.history_spec

    @property
    def manifest(self) -> ReadManifest:
        path, spec = str(self.path), self.spec
        source = QuerySource("t", spec)
        match self.kind:
            case "export":
                return ReadManifest("export", spec, arguments={"path": path, "sort": "id"})
            case "export of changes":
                return ReadManifest("export", spec, arguments={"path": path, "run_id": "run-2"})
            case "changes":
                return ReadManifest("changes", spec, arguments={"run_id": "run-2"})
            case "compare":
                arguments = {"by": "dates", "base": DAY[0], "other": DAY[1], "path": path}
                return ReadManifest("compare", spec, arguments=arguments)
            case "sql":
                return ReadManifest("sql", arguments={"query": QUERY, "text": QUERY}, sources=(source,))
            case "try_model":
                arguments = {"query": MODEL, "text": MODEL, "compare": True, "key": ["id"]}
                raw = QuerySource("t", self.item.tables()[0])
                return ReadManifest("try_model", spec, arguments=arguments, sources=(raw,))
            case "origin":
                load = self.item.manifest(Path("none"), at=DAY[0], run_id="none").rawcore[0]
                return ReadManifest(
                    "origin",
                    self.item.rawcore_spec,
                    arguments={"entity_key": self.key, "limit": 0},
                    inputs=load.inputs,
                    entity_key=load.entity_key,
                )
        return ReadManifest(self.kind, spec, arguments={"sort": "id"} if self.kind == "sample" else {})

    @property
    def key(self) -> str:
        name = self.item.rawcore_spec.column("entity_key").name
        return self.item.table(self.item.rawcore_spec).frame().where("id = 3").select(name).first()[0]

    def answer(self) -> dict[str, Any]:
        """Return the answer with the lines of its file, or the code of its error."""
        self.path.unlink(missing_ok=True)
        try:
            manifest = replace(self.manifest, timeout_seconds=600)
            answer = read(self.item.spark, self.item.warehouse, manifest, "read")
        except Exception as failure:  # as the runner converts it
            error = failure if isinstance(failure, Refusal) else accident("read", failure)
            assert not self.path.exists()
            return {"error": error.code, "message": error.message}
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return {name: value for name, value in answer.items() if name not in ("seconds", "cost")} | {"lines": lines}


class Moments:
    """Moments of a read: after a table was opened, before a job, and after the first row of an export.

    The table is altered at the moment with the number ``due``.
    """

    def __init__(self, spark: Any, due: int, alter: Callable[[], None]) -> None:
        self.passed, self._due, self._alter = 0, due, alter
        self._frames = type(spark.range(1))

    def arrange(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("version", "frame", "frame_as_of"):
            patch.setattr(DeltaTable, name, self._then_pass(getattr(DeltaTable, name)))
        for name in ("collect", "count", "isEmpty"):
            patch.setattr(self._frames, name, self._pass_before(getattr(self._frames, name)))
        patch.setattr(self._frames, "toLocalIterator", self._pass_within(self._frames.toLocalIterator))

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self._due:
            self._alter()

    def _then_pass(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            result = real(*arguments, **named)
            self._pass()
            return result

        return wrapped

    def _pass_before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            self._pass()
            return real(*arguments, **named)

        return wrapped

    def _pass_within(self, real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        @wraps(real)
        def wrapped(*arguments: Any, **named: Any) -> Iterator[Any]:
            for place, row in enumerate(real(*arguments, **named)):
                if place < 2:
                    self._pass()
                yield row

        return wrapped


def change(table: DeltaTable) -> None:
    """Add a column, change all rows and delete one, as another program with Spark would."""
    session, name = table.spark.newSession(), table.sql_name
    session.sql(f"ALTER TABLE {name} ADD COLUMNS (extra STRING)")
    session.sql(f"UPDATE {name} SET v = concat(v, '-late'), extra = 'x'")
    session.sql(f"DELETE FROM {name} WHERE id = 3")


def replace_and_vacuum(table: DeltaTable) -> None:
    """Replace all rows and the schema, and remove the files of all earlier versions."""
    session, folder = table.spark.newSession(), Path(table.location)
    before = [file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts]
    rows = session.read.format("delta").load(table.location)
    parts = [name for name in ("version_segment",) if name in rows.columns]
    changed = rows.where("id <> 3").withColumn("v", F.concat("v", F.lit("-new"))).withColumn("extra", F.lit("x"))
    writer = changed.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy(*parts).save(table.location)
    for file in before:
        file.unlink()


def make_anew(table: DeltaTable) -> None:
    """Replace the folder of the table by that of another table with other rows."""
    folder = Path(table.location)
    other = folder.with_name("other")
    rows = table.spark.newSession().read.format("delta").load(table.location)
    rows.withColumn("v", F.concat("v", F.lit("-anew"))).coalesce(1).write.format("delta").save(str(other))
    shutil.rmtree(folder)
    other.rename(folder)


def read_while_altered(reading: Reading, due: int, alter: Alter) -> tuple[dict[str, Any], bool]:
    """Return the answer of a read whose table is altered at a moment, and True if the read had such a moment."""
    table = reading.item.table(reading.spec)
    moments = Moments(reading.item.spark, due, lambda: alter(table))
    with pytest.MonkeyPatch.context() as patch:
        moments.arrange(patch)
        answer = reading.answer()
    return answer, moments.passed >= due


@pytest.mark.parametrize(
    ("kind", "alter"),
    [*((kind, change) for kind in KINDS), *product(("sample", "export", "sql"), (replace_and_vacuum, make_anew))],
)
def test_read_of_a_table_that_is_altered_meanwhile_is_of_one_version(spark, tmp_path, monkeypatch, kind, alter):
    # Many partitions, which an export reads one after another.
    small = {"spark.sql.adaptive.coalescePartitions.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    monkeypatch.setattr(exports, "_SETTINGS", exports._SETTINGS | small)

    def begin_reading(name: str) -> Reading:
        return Reading(Dataset(spark, tmp_path / name).given(*LOADS), kind)

    calm = begin_reading("calm")
    before = calm.answer()
    assert "error" not in before, before
    alter(calm.item.table(calm.spec))
    after, answers = calm.answer(), []
    for due in range(1, 100):
        answer, was_altered = read_while_altered(begin_reading(str(due)), due, alter)
        if not was_altered:
            break
        answers.append(answer)
        is_clear = answer.get("error") in CLEAR
        assert answer in (before, after) or is_clear, f"moment {due} of {kind}: {answer}, not {before} or {after}"
    assert len(answers) > 2
    assert before in answers or "error" in answers[-1]
