"""Each format of the documentation's examples, from its files through raw into rawcore and history."""

import gzip
import json
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pytest
import yaml
from pyarrow import orc, parquet
from pyspark.sql import SparkSession

from metadata.domain.sources.formats import FOLDER_FORMATS, TEXT_FORMATS
from metadata.domain.sources.locations import dated
from metadata.domain.state import DatasetState
from tests.fixtures.spark import by_night
from tests.loader.harness import Dataset
from tests.loader.readers.records.workbook_files import workbook

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[5] / "docs" / "use" / "sources.md"
EXAMPLES = yaml.safe_load(re.search(r"```yaml\n(datasets:.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1])
COLUMNS = {"id": "integer", "v": "string"}
SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
FIELDS = [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]}]


def _avro(path: Path, rows: list[dict]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": FIELDS}, rows)


def _xml(path: Path, rows: list[dict]) -> None:
    items = "".join(f'<article id="{row["id"]}"><v>{escape(row["v"] or "")}</v></article>' for row in rows)
    path.write_bytes(gzip.compress(f"<r><when>now</when>{items}</r>".encode()))


def _zstd(path: Path, rows: list[dict]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(pa.compress(lines.encode(), codec="zstd", asbytes=True))


def _workbook(path: Path, rows: list[dict]) -> None:
    cells = [["Prices of today"], list(COLUMNS), *([row["id"], row["v"]] for row in rows)]
    path.write_bytes(workbook({"Notes": [], "Prices": cells}))


def _delta(path: Path, rows: list[dict]) -> None:
    frame = SparkSession.active().createDataFrame(rows, "id int, v string")
    frame.write.format("delta").save(str(path.parent))


WRITERS = {
    "csv": lambda path, rows: path.write_text("id;v\n" + "".join(f"{r['id']};{r['v'] or ''}\n" for r in rows)),
    "jsonl": _zstd,
    "fixed": lambda path, rows: path.write_text("".join(f"{r['id']:<4}{r['v'] or '':<6}\n" for r in rows)),
    "json": lambda path, rows: path.write_text(json.dumps({"page": 1, "result": {"items": rows}})),
    "xml": _xml,
    "xlsx": _workbook,
    "parquet": lambda path, rows: parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), path),
    "orc": lambda path, rows: orc.write_table(pa.Table.from_pylist(rows, SCHEMA), path),
    "avro": _avro,
    "delta": _delta,
}


@dataclass
class Delivered(Dataset):
    """Dataset whose deliveries have the location of an example."""

    example: dict = field(default_factory=dict)

    @property
    def raw_state(self) -> DatasetState:
        return replace(super().raw_state, columns=self._columns(typed=self.format not in TEXT_FORMATS))

    def deliver(self, rows: list[dict]) -> Path:
        """Write one file that the example's location covers, and return the location."""
        location = dated(self.example["location"], datetime(2026, 1, self.sequence, tzinfo=UTC))
        place = self.folder / f"delivery {self.sequence}" / location
        path = place if "." in place.name else place / "part-0"
        path = path.with_name(path.name.replace("*", "1"))
        path.parent.mkdir(parents=True)
        WRITERS[self.format](path, rows)
        return place


def test_every_format_has_an_example():
    assert sorted(example["format"] for example in EXAMPLES["datasets"]) == sorted(FOLDER_FORMATS)


# By day, tests/loader/runs/test_source_examples.py loads every format.
BY_DAY = ("csv", "xml")
DELIVERIES = [
    (pytest.param if example["format"] in BY_DAY else by_night)(example, id=example["format"])
    for example in EXAMPLES["datasets"]
]


@pytest.mark.parametrize("example", DELIVERIES)
def test_a_delivery_reaches_raw_rawcore_and_history(spark, tmp_path, example):
    kind, options = example["format"], example.get("options", {})
    data = Delivered(spark, tmp_path, columns=dict(COLUMNS), format=kind, options=options, example=example)
    data.given()
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": None}]
    status, events = data.load(rows, at="2026-01-01T00:00:00+00:00")
    assert status == "succeeded", events
    status, events = data.load([{"id": 1, "v": "ü"}, {"id": 3, "v": "c"}], at="2026-01-02T00:00:00+00:00")
    assert status == "succeeded", events
    assert data.current() == [{"id": 1, "v": "ü"}, {"id": 3, "v": "c"}]
    assert [(row["id"], row["v"], row["ended"] is None) for row in data.history()] == [
        (1, "a", False),
        (1, "ü", True),
        (2, None, False),
        (3, "c", True),
    ]
