"""Each format from its files through raw into rawcore and history."""

import json
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from tests.loader.harness import Dataset
from tests.loader.records.workbook_files import workbook

pytestmark = pytest.mark.spark

COLUMNS = {"id": "integer", "v": "string"}
FIELDS = [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]}]


def _avro(path: Path, rows: list[dict]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": FIELDS}, rows)


def _xml(path: Path, rows: list[dict]) -> None:
    items = "".join(f'<i id="{row["id"]}"><v>{escape(row["v"] or "")}</v></i>' for row in rows)
    path.write_text(f"<r><when>now</when>{items}</r>")


def _zstd(path: Path, rows: list[dict]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(pa.compress(lines.encode(), codec="zstd", asbytes=True))


WRITERS = {
    "orc": lambda path, rows: orc.write_table(
        pa.Table.from_pylist(rows, pa.schema([("id", pa.int32()), ("v", pa.string())])), path
    ),
    "avro": _avro,
    "json": lambda path, rows: path.write_text(json.dumps({"items": rows})),
    "xml": _xml,
    "xlsx": lambda path, rows: path.write_bytes(workbook({"S": [list(COLUMNS), *([r["id"], r["v"]] for r in rows)]})),
    "fixed": lambda path, rows: path.write_text("".join(f"{r['id']:<4}{r['v'] or '':<6}\n" for r in rows)),
    "jsonl": _zstd,
}
OPTIONS = {"json": {"path": "items"}, "xml": {"row_tag": "i"}, "fixed": {"columns": "id:1-4, v:5-10"}}


@dataclass
class Delivered(Dataset):
    """Dataset whose deliveries are written in any format."""

    def deliver(self, rows: list[dict]) -> Path:
        ending = "jsonl.zst" if self.format == "jsonl" else self.format
        path = self.folder / f"day {self.sequence}" / f"delivery.{ending}"
        path.parent.mkdir()
        WRITERS[self.format](path, rows)
        return path


@pytest.mark.parametrize("format_name", list(WRITERS))
def test_a_delivery_reaches_raw_rawcore_and_history(spark, tmp_path, format_name):
    data = Delivered(spark, tmp_path, columns=dict(COLUMNS), format=format_name, options=OPTIONS.get(format_name, {}))
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
