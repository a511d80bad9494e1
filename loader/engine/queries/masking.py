"""Masking of column values before a query runs, so that no result, order or match reveals them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.contract.manifest.reads import Masking
from loader.domain.queries.masking import is_masked
from loader.engine.queries import history_queries
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sensitivity import MASK, MASK_CHANGED
from metadata.domain.sql import quote_identifier


def readable(table: DeltaTable, spec: TableSpec, version: int, masking: Masking | None) -> tuple[DataFrame, list[str]]:
    """Return the frame of a table version, masked for the reader, and the names of the masked columns."""
    frame = table.frame_as_of(version)
    if masking is None:
        return frame, []
    return masked(frame, history_queries.column_keys(table, version), spec, masking)


def masked(
    frame: DataFrame, keys: Mapping[str, str], table: TableSpec, masking: Masking
) -> tuple[DataFrame, list[str]]:
    """Return the frame without masked values, and the names of the masked columns.

    A masked column has a hash of its value, the row's entity key and the secret. The hash only shows if versions of
    one key differ, and ``hidden`` replaces it in the answer. ``keys`` are stable keys by column name.
    """
    salt = _salt(frame, keys, table, masking)
    columns, names = [], []
    for name in frame.columns:
        own = F.col(quote_identifier(name))
        key = keys.get(name)
        if key in masking.hashed:
            own = _hash(F.lit(masking.secret), own)
        elif is_masked(name, key, masking):
            own = _hash(salt, F.lit(name), own.cast("string"))
            names.append(name)
        columns.append(own.alias(name))
    return frame.select(*columns), names


def _salt(frame: DataFrame, keys: Mapping[str, str], table: TableSpec, masking: Masking) -> Column:
    entity = next((column.key for column in table.of_purpose("entity_key")), None)
    of_row = [F.col(quote_identifier(name)) for name in frame.columns if keys.get(name) == entity and entity]
    return F.concat_ws(" ", F.lit(masking.secret), *of_row)


def _hash(*parts: Column) -> Column:
    """Return the hash of the parts; a NULL value has its own hash, but a hash of two parts stays NULL."""
    *first, last = parts
    absent = F.when(last.isNull(), F.lit("-")).otherwise(F.lit("+"))
    hashed = F.sha2(F.concat_ws(" ", *first, absent, last), 256)
    return F.when(last.isNotNull(), hashed) if len(parts) == 2 else hashed


def hidden(columns: Sequence[str], rows: Iterable[Sequence[Any]], names: Sequence[str]) -> list[list[Any]]:
    """Return rows with masks instead of the values of masked columns.

    A value that differs from the previous row's has a mask of its own.
    """
    places = [place for place, name in enumerate(columns) if name in names]
    masked_rows: list[list[Any]] = []
    before: Sequence[Any] | None = None
    for row in rows:
        values = list(row)
        for place in places:
            differs = before is not None and before[place] != row[place]
            values[place] = MASK_CHANGED if differs else MASK
        masked_rows.append(values)
        before = row
    return masked_rows
