"""Masking of column values before a query runs, so that no result, order or match reveals them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.states.tables import TableSpec
from loader.domain.runs.manifest import Masking
from metadata.domain.sensitivity import MASK, MASK_CHANGED
from metadata.domain.sql import quote_identifier


def masked(
    frame: DataFrame, keys: Mapping[str, str], table: TableSpec, masking: Masking
) -> tuple[DataFrame, list[str]]:
    """Return the frame without masked values, and the names of the masked columns.

    A masked column holds a hash of its value, the row's entity key and the secret, which only shows if
    versions of one key differ. ``hidden`` replaces it in the answer. ``keys`` are stable keys by column name.
    """
    salt = _salt(frame, keys, table, masking)
    columns, names = [], []
    for name in frame.columns:
        own = F.col(quote_identifier(name))
        key = keys.get(name)
        if key in masking.hashed:
            own = _hash(F.lit(masking.secret), own)
        elif key not in masking.shown and not (key is None and name.lower() in masking.shown_names):
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
    """Return rows with masked columns replaced: one mask for a changed value, another for the rest.

    A value is changed if it differs from the previous row's.
    """
    places = [place for place, name in enumerate(columns) if name in names]
    found: list[list[Any]] = []
    before: Sequence[Any] | None = None
    for row in rows:
        shown = list(row)
        for place in places:
            differs = before is not None and before[place] != row[place]
            shown[place] = MASK_CHANGED if differs else MASK
        found.append(shown)
        before = row
    return found
