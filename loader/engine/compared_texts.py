"""Texts by which uuid, time and json are compared in Spark, and parts of hashes with them.

``loader.domain.historization.compared_texts`` defines them. That of json is computed by its function in Python tasks,
since no expression of Spark sorts keys and keeps every number exactly.
"""

from collections.abc import Iterable, Mapping

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from architecture.domain.tables import TableSpec
from loader.contract.manifest.loads import HashComponent
from loader.domain.historization.compared_json import compared_json_column
from loader.domain.historization.compared_texts import BY_VALUE
from loader.engine.task_modules import ship_modules
from metadata.domain.sql import quote_identifier
from metadata.domain.text_formats import PATTERNS
from metadata.domain.types import TIME, UUID, parse


def compared(column: Column, type_name: str) -> Column:
    """Return the text by which values of this type are compared; a column of another type unchanged."""
    if type_name not in BY_VALUE:
        return column
    if type_name == UUID:
        return F.lower(column)
    if type_name == TIME:
        return F.when(column.rlike(PATTERNS[TIME]), _time(column)).otherwise(column)
    context = SparkContext._active_spark_context
    assert context is not None
    ship_modules(context)
    return F.udf(compared_json_column, T.StringType(), useArrow=False)(column)


def _time(text: Column) -> Column:
    trimmed = F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))
    return (
        F.when(F.char_length(text) == len("hh:mm"), F.concat(text, F.lit(":00")))
        .when(F.contains(text, F.lit(".")), trimmed)
        .otherwise(text)
    )


def types_by_name(*tables: TableSpec | None) -> dict[str, str]:
    """Return the types of described columns by name that are compared by value."""
    described = {column.name: parse(column.type).name for table in tables if table for column in table.columns}
    return {name: type_name for name, type_name in described.items() if type_name in BY_VALUE}


def hash_parts(
    components: Iterable[HashComponent],
    types: Mapping[str, T.DataType],
    described: Mapping[str, str],
    columns: Mapping[str, Column] | None = None,
) -> list[tuple[str, Column, T.DataType]]:
    """Return components of a hash for ``loader.engine.hashing.digest``.

    ``types`` are those of the frame's columns by name, ``described`` those that are compared by value, ``columns``
    other columns than those of the components' names.
    """
    parts = []
    for part in components:
        column = columns[part.column] if columns else F.col(quote_identifier(part.column))
        type_name = described.get(part.column, "") if part.type is None else part.type
        parts.append((part.key, compared(column, type_name), types[part.column]))
    return parts
