"""Difference between two states of a table: two dates of a history, two Delta versions, or two environments.

Arguments of kind ``compare``:

    by            dates, versions or environments (``loader.domain.queries.comparison``)
    base, other   dates: times in ISO 8601, or numbers; versions: Delta versions; environments: their names
    of_versions   compare the versions of a history instead of its current rows
    warehouse     of ``base``, by environments; its table is the first of the manifest's sources, or its view the last
                  of ``other_sources``
    whole_rows    compare rows of a view that may share a key
    path          CSV file for all rows that differ, written if the answer has a part of them

Rows are matched by business key, by its hash if a column of it is masked, and without a key as whole rows. Columns of
loads are not compared. Masked columns are left out, so neither rows nor numbers reveal that a value changed.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN, TableSpec
from loader.contract.manifest.reads import ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.queries.comparison import DATES, ENVIRONMENTS
from loader.engine.compared_texts import types_by_name
from loader.engine.queries.differences import compare, is_cut
from loader.engine.queries.exports import export_differences
from loader.engine.queries.history_queries import not_kept, present_names, valid_at
from loader.engine.queries.masking import readable
from loader.engine.queries.query_sources import view_rows
from loader.engine.session import fit_shuffles
from loader.engine.tables.table_files import misses_version
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

_VALUES = ("business_key", "attribute")
_OF_VERSIONS = (*_VALUES, "history_key", "started_at", "ended_at", "state")
_SAMPLES = 100


def compare_tables(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict[str, Any]:
    """Return the difference of the manifest's two states. Raise Refusal NO_TABLE, NO_VERSION or BEYOND_RETENTION."""
    session, spec, arguments = fit_shuffles(spark.newSession()), manifest.own_table, manifest.arguments
    if manifest.other_sources:
        return _compare_views(session, warehouse, manifest)
    table = _table(session, warehouse, spec)
    newest = table.version()
    if arguments["by"] == DATES:
        frame, masked = readable(table, spec, newest, manifest.masking)
        sides = [valid_at(frame, spec, arguments | {"at": arguments[side]}) for side in ("base", "other")]
    elif arguments["by"] == ENVIRONMENTS:
        (source,) = manifest.sources
        there = _table(session, arguments["warehouse"], source.table, f" in {arguments['base']}")
        before, hidden = readable(there, source.table, there.version(), source.masking)
        after, masked = readable(table, spec, newest, manifest.masking)
        sides = [_current(before, source.table, arguments), _current(after, spec, arguments)]
        masked += hidden
    else:
        return _compare_versions(table, manifest, newest)
    return _difference(sides, manifest, masked, newest)


def _compare_views(session: SparkSession, warehouse: str, manifest: ReadManifest) -> dict[str, Any]:
    """Compare the rows of a view in two environments."""
    there = manifest.other_sources[-1]
    other = replace(manifest, table=there.table, sources=manifest.other_sources, masking=there.masking)
    before, hidden = view_rows(session, manifest.arguments["warehouse"], other)
    after, masked = view_rows(session, warehouse, manifest)
    return _difference([before, after], manifest, masked + hidden, None)


def _table(session: SparkSession, warehouse: str, spec: TableSpec, where: str = "") -> DeltaTable:
    table = DeltaTable(session, warehouse, spec.key)
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{spec.qualified_name} does not exist in the warehouse{where} yet",
            hint="A load run creates it.",
        )
    return table


def _compare_versions(table: DeltaTable, manifest: ReadManifest, newest: int) -> dict[str, Any]:
    """Compare two Delta versions, with the present names of their columns."""
    spec, arguments = manifest.own_table, manifest.arguments
    base, other = (int(arguments[side]) for side in ("base", "other"))
    if not 0 <= base <= newest or not 0 <= other <= newest:
        message = f"{spec.qualified_name} has the versions 0 to {newest}"
        raise Refusal("NO_VERSION", message, hint="Choose two of them.")
    try:
        sides, masked = [], []
        for version in (base, other):
            frame, names = readable(table, spec, version, manifest.masking)
            renamed = present_names(frame, table, spec, version)
            masked += [now for then, now in zip(frame.columns, renamed, strict=True) if then in names]
            sides.append(_current(frame.toDF(*renamed), spec, arguments))
        return _difference(sides, manifest, masked, other)
    except Exception as failure:
        if misses_version(failure):
            raise not_kept(f"version {base} or {other} of {spec.qualified_name}") from None
        raise


def _current(frame: DataFrame, spec: TableSpec, arguments: dict[str, Any]) -> DataFrame:
    """Return the current rows of a history; of another table, and of a history compared as such, all rows."""
    if spec.kind != "history" or arguments.get("of_versions"):
        return frame
    return frame.where(F.col(quote_identifier(spec.column("segment").name)) == OPEN)


def _difference(
    sides: list[DataFrame], manifest: ReadManifest, masked: list[str], version: int | None
) -> dict[str, Any]:
    spec, of_versions = manifest.own_table, bool(manifest.arguments.get("of_versions"))
    key = [] if manifest.arguments.get("whole_rows") else _key(spec, masked, of_versions=of_versions)
    purposes = _OF_VERSIONS if of_versions else _VALUES
    specs = (spec, *(source.table for source in manifest.sources))
    left_out = {column.name for own in specs for column in own.columns if column.purpose not in purposes} - set(key)
    before, after = (
        frame.select(*(quote_identifier(n) for n in frame.columns if n not in left_out)) for frame in sides
    )
    hidden = {name.lower() for name in masked}
    path = manifest.arguments.get("path")
    export = partial(export_differences, path=path) if path else None
    types = types_by_name(spec)
    comparison = compare(before, after, key, left_out=hidden, samples=_SAMPLES, types=types, export=export)
    samples = comparison["samples"]
    return {
        "table_version": version,
        "columns": samples["columns"],
        "rows": sum(len(samples[kind]) for kind in ("added", "changed", "gone")),
        "truncated": is_cut(comparison),
        "masked": comparison["columns"]["left_out"],
        "difference": {"table": spec.qualified_name, "table_version": version, **comparison},
    }


def _key(spec: TableSpec, masked: list[str], *, of_versions: bool) -> list[str]:
    """Return the columns by which rows are matched; none for a table without a key."""
    key = [column.name for column in spec.of_purpose("history_key" if of_versions else "business_key")]
    if set(key).isdisjoint(masked):
        return key
    return [column.name for column in spec.of_purpose("entity_key")]
