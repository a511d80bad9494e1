"""Formats of source datasets, in one table.

The models, the forms, the endings that pages recognise and the table of the documentation come from ``FORMATS``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CSV, FIXED, JSONL, JSON, XML, XLSX = "csv", "fixed", "jsonl", "json", "xml", "xlsx"
PARQUET, ORC, AVRO, DELTA = "parquet", "orc", "avro", "delta"
TABLE, KAFKA, REST = "table", "kafka", "rest"
PACKED = (".gz", ".bz2", ".zst")


@dataclass(frozen=True)
class SourceFormat:
    """Format of a source dataset. ``is_text``: its values come as text, and raw keeps them so."""

    name: str
    label: str
    endings: tuple[str, ...]
    is_text: bool


FORMATS = (
    SourceFormat(CSV, "CSV", (".csv", ".tsv", ".txt"), True),
    SourceFormat(FIXED, "Fixed width", (), True),
    SourceFormat(JSONL, "JSON lines", (".jsonl", ".ndjson"), True),
    SourceFormat(JSON, "JSON document", (".json",), True),
    SourceFormat(XML, "XML", (".xml",), True),
    SourceFormat(XLSX, "Excel workbook", (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), True),
    SourceFormat(PARQUET, "Parquet", (".parquet", ".pq"), False),
    SourceFormat(ORC, "ORC", (".orc",), False),
    SourceFormat(AVRO, "Avro", (".avro",), False),
    SourceFormat(DELTA, "Delta table", (), False),
    SourceFormat(TABLE, "Database table", (), False),
    SourceFormat(KAFKA, "Kafka topic", (), True),
    SourceFormat(REST, "REST endpoint", (), True),
)
NAMES = tuple(entry.name for entry in FORMATS)
FILE_FORMATS = tuple(entry.name for entry in FORMATS if entry.name not in (DELTA, TABLE, KAFKA, REST))
FOLDER_FORMATS = (*FILE_FORMATS, DELTA)
# Formats of the datasets of a system, by the system's kind.
FORMATS_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "files": FOLDER_FORMATS,
    "jdbc": (TABLE,),
    "kafka": (KAFKA,),
    "rest": (REST,),
    "duckdb": (),
    "delta": (),
}
# Formats of sources of which a load reads rows from a watermark on: a filter suffices, without conversion of text.
WATERMARK_FORMATS = (TABLE, REST, DELTA, PARQUET, ORC, AVRO)
# Formats of which a feed reads each file or message once.
READ_ONCE = (*FILE_FORMATS, KAFKA)
# Columns of change events besides those of their rows: the operation, and the order of the events.
OP, SEQUENCE = "_op", "_sequence"
TEXT_FORMATS = tuple(entry.name for entry in FORMATS if entry.is_text)
_LABELS = {entry.name: entry.label for entry in FORMATS}
_BY_ENDING = {ending: entry.name for entry in FORMATS for ending in entry.endings}


def reads_changes(format_name: str, options: Mapping[str, Any]) -> bool:
    """Return True for a Delta table of which the changes of its versions are read."""
    return format_name == DELTA and bool(options.get("changes"))


def label_of(name: str) -> str:
    """Return the display name of a format."""
    return _LABELS[name]


def format_of(name: str) -> str:
    """Return the format that a file's ending indicates, compressed or not; empty if it indicates none."""
    for packed in PACKED:
        name = name.removesuffix(packed)
    return _BY_ENDING.get(f".{name.rpartition('.')[2].lower()}", "") if "." in name else ""
