"""Profile of a table: one aggregation for all columns, and one more pass for frequent values and histograms."""

from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.domain.quality.profiles import BUCKETS, MOST_VALUES, QUANTILES, TOP, ColumnProfile, buckets_of, shape_of
from loader.engine.pyspark_types import row_of
from loader.engine.quality.frame_checks import types_of_frame
from metadata.domain.sql import quote_identifier
from metadata.domain.types import BINARY, DataType

_NUMBER, _TIME, _TEXT = "number", "time", "text"
_ACCURACY = 1000


def profile(frame: DataFrame, hidden: Collection[str] = ()) -> dict[str, Any]:
    """Return the number of rows and a profile of each column; ``hidden`` columns have counts and no values."""
    types = types_of_frame(frame)
    wanted = [(name, sql) for name, type_ in types.items() for sql in _numbers(name, type_, name in hidden)]
    row = row_of(
        frame.agg(
            F.count(F.lit(1)).alias("rows"), *(F.expr(sql).alias(f"n{place}") for place, (_, sql) in enumerate(wanted))
        ).first()
    )
    values: dict[str, list[Any]] = {name: [] for name in types}
    for place, (name, _) in enumerate(wanted):
        values[name].append(row[f"n{place}"])
    profiles = [
        _profile_of(name, type_, values[name], hidden=name in hidden, rows=row["rows"]) for name, type_ in types.items()
    ]
    _add_distributions(frame, types, profiles)
    return {"rows": row["rows"], "profile": [item.as_json() for item in profiles]}


def _numbers(name: str, type_: DataType, hidden: bool) -> Iterator[str]:
    """Yield the aggregates of one column: NULLs, distinct values, and unless hidden its limits."""
    column = quote_identifier(name)
    yield f"count_if({column} IS NULL)"
    yield f"approx_count_distinct({column})"
    if hidden or type_.name == BINARY:
        return
    kind = shape_of(type_)
    if kind == _TEXT:
        yield from (f"min(char_length({column}))", f"max(char_length({column}))")
    yield from (f"CAST(min({column}) AS STRING)", f"CAST(max({column}) AS STRING)")
    if kind in (_NUMBER, _TIME):
        places = ", ".join(str(place) for place in QUANTILES)
        yield f"percentile_approx({_as_number(column, type_)}, array({places}), {_ACCURACY})"


def _as_number(column: str, type_: DataType) -> str:
    """Return a column as a double: a date as days, a timestamp as seconds since 1970."""
    if shape_of(type_) == _NUMBER:
        return f"CAST({column} AS DOUBLE)"
    if type_.name == "date":
        return f"CAST(unix_date({column}) AS DOUBLE)"
    return f"unix_micros({column}) / 1e6"


def _profile_of(name: str, type_: DataType, numbers: list[Any], *, hidden: bool, rows: int) -> ColumnProfile:
    values = iter(numbers)
    item = ColumnProfile(name, str(type_), rows=rows, nulls=next(values), distinct=next(values), hidden=hidden)
    if hidden or type_.name == BINARY:
        return item
    kind = shape_of(type_)
    if kind == _TEXT:
        item.min_length, item.max_length = next(values), next(values)
    item.minimum, item.maximum = next(values), next(values)
    if kind in (_NUMBER, _TIME):
        item.quantiles = [float(value) for value in next(values) or ()]
    return item


def _add_distributions(frame: DataFrame, types: dict[str, DataType], profiles: list[ColumnProfile]) -> None:
    """Add frequent values of columns with few distinct ones, and histograms of numbers and times, by one pass."""
    entries = []
    for place, item in enumerate(profiles):
        if item.hidden or item.rows == item.nulls or types[item.name].name == BINARY:
            continue
        column = quote_identifier(item.name)
        if item.distinct <= MOST_VALUES:
            entries.append(_entry(place, F.col(column).cast("string"), F.col(column).isNotNull()))
        if (limits := buckets_of(item)) is not None:
            number, (low, width) = F.expr(_as_number(column, types[item.name])), limits
            bucket = F.least(F.floor((number - low) / width), F.lit(BUCKETS - 1)).cast("int")
            inside = number.isNotNull() & ~F.isnan(number) & (number >= low)
            entries.append(_entry(place + len(profiles), bucket.cast("string"), inside))
    if not entries:
        return
    rows = frame.select(F.explode(F.array(*entries)).alias("e")).where("e.present")
    for place, value, count in rows.groupBy("e.place", "e.value").count().collect():
        if place < len(profiles):
            profiles[place].top.append((value, count))
        else:
            item = profiles[place - len(profiles)]
            item.histogram = item.histogram or [0] * BUCKETS
            item.histogram[int(value)] += count
    for item in profiles:
        item.values_complete = bool(item.top)
        item.top = sorted(item.top, key=lambda pair: (-pair[1], str(pair[0])))[:TOP]


def _entry(place: int, value: Column, present: Column) -> Column:
    return F.struct(F.lit(place).alias("place"), value.alias("value"), present.alias("present"))
