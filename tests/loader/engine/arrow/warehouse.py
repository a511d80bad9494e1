"""Three tables in a folder, loaded by ``loader.engine.arrow`` alone: the driver's commits are lists of files."""

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loader.engine.arrow.deliveries import Column, DeliveredFile, Delivery
from loader.engine.arrow.parquet_files import Field, StoredFile, Table, arrow_type, read_rows
from loader.engine.arrow.small_load import SmallLoad, load_small
from loader.engine.arrow.versions import History, Stamp
from metadata.domain.types import parse

LOADED_AT = datetime(2030, 1, 1, tzinfo=UTC)
_VERSION = {
    "history_key": "string",
    "started_at": "timestamp",
    "ended_at": "timestamp",
    "state": "string",
    "active": "boolean",
    "closed_by": "string",
    "closed_at": "timestamp",
    "segment": "string",
}
_STAMPS = {"run_id": "string", "loaded_at": "timestamp"}
_PROVENANCE = {"source_file": "string", "source_row": "bigint", "loaded_on": "date"}
_KEYS = {"entity_key": "string", "row_hash": "string"}
_LIMIT = 1000


def delivered(path: Path, columns: Mapping[str, str], required: tuple[str, ...] = ("id",)) -> Delivery:
    """Return the delivery of one file without checks of its rows."""
    status = os.stat(path)
    files = (DeliveredFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000, path.name),)
    described = tuple(Column(name, type_, name in required) for name, type_ in columns.items())
    return Delivery(path.suffix[1:], files, described)


@dataclass
class Warehouse:
    """Tables of one dataset with the key ``id``, and the data files that are live in each."""

    folder: Path
    columns: dict[str, str]
    closes_absent: bool = True
    historize: bool = True
    files: dict[str, list[StoredFile]] = field(default_factory=lambda: {"raw": [], "history": [], "rawcore": []})

    def table(self, kind: str) -> Table:
        described = self.columns | _STAMPS
        described |= _PROVENANCE if kind == "raw" else _KEYS
        if kind == "history":
            described |= _VERSION
        fields = tuple(
            Field(column, type_, f"col-{column}", number) for number, (column, type_) in enumerate(described.items())
        )
        return Table(str(self.folder / kind), fields, ("segment",) if kind == "history" else ())

    def deliver(self, rows: list[dict[str, Any]], format_name: str = "csv") -> Path:
        path = self.folder / f"delivery.{format_name}"
        if format_name == "csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(self.columns))
                writer.writeheader()
                writer.writerows(rows)
        else:
            schema = pa.schema([(name, arrow_type(parse(type_))) for name, type_ in self.columns.items()])
            pq.write_table(pa.Table.from_pylist(rows, schema), path)
        return path

    def small_load(self, path: Path, *, at: str, run_id: str) -> SmallLoad:
        purposes = {name: name for name in (*_KEYS, *_STAMPS, *_VERSION)}
        names = tuple((name, name) for name in self.columns)
        history = History(self.table("history"), purposes, ("k-entity", "k-start")) if self.historize else None
        leading = self.files["history" if self.historize else "rawcore"]
        ended = [file for file in leading if file.partition.get("col-segment") == "deleted"]
        return SmallLoad(
            delivery=delivered(path, self.columns),
            stamp=Stamp(run_id, datetime.fromisoformat(at), LOADED_AT),
            raw=self.table("raw"),
            raw_columns=names,
            raw_stamps=("run_id", "loaded_at"),
            raw_provenance=("source_file", "source_row"),
            raw_day="loaded_on",
            rawcore=self.table("rawcore"),
            rawcore_stamps=("run_id", "loaded_at"),
            stage_columns=names,
            entity_key=("entity_key", (("k-id", "id"),)),
            row_hash=("row_hash", tuple((f"k-{name}", name) for name in self.columns if name != "id")),
            history=history,
            open_files=tuple(f for f in leading if f.partition.get("col-segment", "open") == "open"),
            ended_files=tuple(ended),
            closes_absent=self.closes_absent,
            limit=_LIMIT,
        )

    def load(self, rows: list[dict[str, Any]], *, at: str, run_id: str, format_name: str = "csv") -> dict[str, Any]:
        """Deliver and load the rows, and commit the files; return the task's result."""
        result = load_small(self.small_load(self.deliver(rows, format_name), at=at, run_id=run_id))
        if "not_plain" not in result:
            self.commit(result)
        return result

    def commit(self, result: dict[str, Any]) -> None:
        self.files["raw"] = []
        if result["replaces"]:
            self.files["rawcore"] = []
            self.files["history"] = [f for f in self.files["history"] if f.partition["col-segment"] != "open"]
        for name in self.files:
            for action in map(json.loads, result[name]):
                path = os.path.join(self.table(name).folder, action["add"]["path"])
                self.files[name].append(StoredFile(path, action["add"]["partitionValues"]))

    def rows(self, name: str) -> list[dict[str, Any]]:
        return read_rows(self.table(name), self.files[name], _LIMIT).to_pylist()
