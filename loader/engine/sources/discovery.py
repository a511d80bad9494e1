"""Discovery of a source: its columns and types, read from the first rows."""

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from loader.contract.manifest.sources import SourceSpec
from loader.engine.session import persisted, source_roots
from loader.engine.sources.checks.row_faults import refuse_faults
from loader.engine.sources.delivery_reading import open_delivery
from loader.engine.sources.schemas import inferred_columns


def discover(spark: SparkSession, location: str, format_name: str, options: dict | None = None) -> dict:
    """Return the content of a delivery: ``{"columns": [{"name", "type", "nullable"}], "rows", "files"}``.

    Types are inferred from every row. Raise Refusal for a delivery that cannot be read.
    """
    source = SourceSpec(name=location, location=location, format=format_name, columns=(), options=options or {})
    opened = open_delivery(spark, source.name, location, format_name, source.options, roots=source_roots(spark))
    cached = persisted(opened.frame(numbered=True), StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        with opened.reading(again=False):
            checked = refuse_faults(opened, cached, source)
        rows = cached.where(~opened.is_empty_record) if checked.empty else cached
        columns = inferred_columns(opened, rows, opened.names)
    finally:
        cached.unpersist()
    return {
        "columns": [{"name": c["name"], "type": c["type"], "nullable": c["nullable_seen"]} for c in columns],
        "rows": checked.rows,
        "files": len(opened.files),
    }
