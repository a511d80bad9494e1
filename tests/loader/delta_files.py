"""Delta tables written without Spark: a data file and a log entry for each version, as another writer makes them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

_TYPES = {pa.int32(): "integer", pa.string(): "string"}


def write_version(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Replace the table's rows by a new version; create the table with the first one."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    file = folder / f"part-{version}.parquet"
    parquet.write_table(pa.Table.from_pylist(rows, schema), file)
    actions = [{"commitInfo": {"operation": "WRITE", "timestamp": version}}]
    actions += [_protocol(), _metadata(schema)] if version == 0 else []
    if version:
        actions.append({"remove": {"path": f"part-{version - 1}.parquet", "deletionTimestamp": 0, "dataChange": True}})
    size = {"size": file.stat().st_size, "modificationTime": 0}
    actions.append({"add": {"path": file.name, "partitionValues": {}, "dataChange": True, **size}})
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _protocol() -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _metadata(schema: pa.Schema) -> dict[str, Any]:
    fields = [{"name": field.name, "type": _TYPES[field.type], "nullable": True, "metadata": {}} for field in schema]
    return {
        "metaData": {
            "id": "6f2d8f0e-6d3c-4d8b-9f43-0a6a3f1c7a11",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 0,
        }
    }
