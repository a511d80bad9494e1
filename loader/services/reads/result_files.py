"""Parquet file of a query's result."""

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loader.domain.queries.query_results import value_text

PARQUET = "application/vnd.apache.parquet"

# Spark's simple types. Every other type, and a masked column, is stored as text: nested values as JSON.
_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def parquet_of(answer: Mapping[str, Any]) -> bytes:
    """Return a result as a Parquet file with the types of its columns.

    A column with a value that the type cannot hold in Parquet (a year beyond 9999) is stored as text.
    """
    masked = set(answer["masked"])
    columns = [
        _column([row[place] for row in answer["rows"]], "string" if name in masked else type_)
        for place, (name, type_) in enumerate(zip(answer["columns"], answer["types"], strict=True))
    ]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, names=list(_distinct(answer["columns"]))), file)
    return file.getvalue()


def _column(values: Sequence[Any], type_: str) -> pa.Array:
    wanted = _arrow_type(type_)
    try:
        if pa.types.is_binary(wanted):
            return pa.array([None if value is None else bytes.fromhex(value) for value in values], wanted)
        if pa.types.is_floating(wanted):
            return pa.array([None if value is None else float(value) for value in values], wanted)
        if pa.types.is_integer(wanted) or pa.types.is_boolean(wanted):
            return pa.array(values, wanted)
        return pa.array(map(value_text, values), pa.string()).cast(wanted)
    except pa.ArrowInvalid:
        return pa.array(map(value_text, values), pa.string())


def _arrow_type(type_: str) -> pa.DataType:
    if decimal := _DECIMAL.fullmatch(type_):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _TYPES.get(type_, pa.string())


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """Yield the names; a name that occurs again gets its number, since readers find columns by name."""
    seen: Counter[str] = Counter()
    taken = set(names)
    for name in names:
        seen[name] += 1
        number, given = seen[name], name
        while number > 1 and (given := f"{name}_{number}") in taken:
            number += 1
        taken.add(given)
        yield given
