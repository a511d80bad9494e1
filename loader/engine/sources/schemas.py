"""Schemas of deliveries: types inferred from values, columns outside the contract, and the schema as a whole.

A schema is ``[{"name", "type", "declared"}]``: ``type`` is missing if nothing tells it. It is the contract's for a
column of text whose values all fit that.
"""

from collections.abc import Callable
from itertools import product

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.schema_changes import MISSING_COLUMN, VALUE_DOES_NOT_FIT, is_retyped
from loader.engine.conversions import typed
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import row_of
from loader.engine.sources.delivered_columns import type_name
from loader.engine.sources.opened import Opened
from loader.engine.value_formats import standard_text
from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.sql import quote_identifier

# Rows from which the types of columns outside the contract are inferred if the delivery is refused for its columns.
SAMPLED_ROWS = 10_000
# Pairs of a missing and a new column up to which their values are compared.
MOST_PAIRS = 400
# Returns the rows of the delivery before, with the names of the source; None if there are none.
StoredRows = Callable[[], DataFrame | None]

# Inference of types from the values of delivered columns. Text is a number only if the conversion loses nothing:
# ``007`` and numbers of twenty digits stay string. JSON itself distinguishes text and numbers.
_INTEGER = r"^(0|-?[1-9]\d{0,18})$"
# Fifteen digits before the point: every such number is exact. An exponent needs a point or a sign.
_FLOAT = r"^-?(0|[1-9]\d{0,14})(\.\d+([eE][+-]?\d+)?|[eE][+-]\d+)?$"
_TIME_OF_DAY = r"^.{10}[T ]"


def inferred_columns(opened: Opened, frame: DataFrame, names: tuple[str, ...]) -> list[dict]:
    """Return ``{"name", "type", "nullable_seen"}`` for each name, in order, in one pass over ``frame``."""
    if not names:
        return []
    tests = {name: _tests(opened, name) for name in names}
    aggregates = [F.count(F.lit(1)).alias("rows")]
    for place, name in enumerate(names):
        aggregates.append(F.count(opened.column(name)).alias(f"present{place}"))
        aggregates += [F.count_if(test).alias(f"{kind}{place}") for kind, test in tests[name].items()]
    counts = row_of(frame.agg(*aggregates).first())
    native = opened.reader.own_types(opened)
    columns = []
    for place, name in enumerate(names):
        present = counts[f"present{place}"]
        fitting = [kind for kind in tests[name] if present and counts[f"{kind}{place}"] == present]
        declared = opened.type_of(name) if not opened.is_text else native.get(name)
        columns.append(
            {"name": name, "type": _choose_type(fitting, declared), "nullable_seen": present < counts["rows"]}
        )
    return columns


def _tests(opened: Opened, name: str) -> dict[str, Column]:
    """Return a condition for each type, from narrow to wide; the first type that all values satisfy is used.

    Empty if the format gives the type.
    """
    if not opened.is_text:
        return {}
    value, formats = opened.column(name), ValueFormats.of(vars(opened.options))
    truth, number, date, timestamp = (
        standard_text(value, kind, formats)
        for kind in (data_types.BOOLEAN, data_types.FLOAT, data_types.DATE, data_types.TIMESTAMP)
    )
    is_date = typed(date, data_types.DATE).isNotNull()
    return {
        data_types.BOOLEAN: F.lower(truth).isin("true", "false"),
        data_types.INTEGER: number.rlike(_INTEGER) & number.try_cast("int").isNotNull(),
        data_types.BIGINT: number.rlike(_INTEGER) & number.try_cast("bigint").isNotNull(),
        data_types.FLOAT: number.rlike(_FLOAT),
        data_types.DATE: is_date,
        data_types.TIMESTAMP: typed(timestamp, data_types.TIMESTAMP).isNotNull() & timestamp.rlike(_TIME_OF_DAY)
        | is_date,
    }


def _choose_type(fitting: list[str], declared: T.DataType | None) -> str:
    if declared is None or isinstance(declared, T.NullType):
        return fitting[0] if fitting else data_types.STRING
    match declared:
        case T.StringType():
            return next(
                (kind for kind in fitting if kind in (data_types.DATE, data_types.TIMESTAMP)), data_types.STRING
            )
        case T.LongType() if data_types.INTEGER in fitting:
            return data_types.INTEGER
    return type_name(declared) or data_types.STRING


def unknown_columns(opened: Opened, frame: DataFrame, wanted: tuple[str, ...]) -> list[dict]:
    """Return the delivered columns outside the contract, without those that are to be ignored.

    A column of a type that no table can have, like an interval, has no type in its description.
    """
    left_out, described = {*wanted, *opened.options.ignored}, opened.unknown()
    if described is not None:
        return [column for column in described if column["name"] not in left_out]
    names = [name for name in opened.names if name not in left_out]
    typed_names = tuple(name for name in names if name not in opened.unread and _has_known_type(opened, name))
    columns = {column["name"]: column for column in inferred_columns(opened, frame, typed_names)}
    columns |= {name: _declared(opened, name) for name in names if name in opened.unread}
    return [columns.get(name, {"name": name}) for name in names]


def _declared(opened: Opened, name: str) -> dict:
    """Return the description of a column that is not read, so nobody knows if all its rows have values."""
    if not _has_known_type(opened, name):
        return {"name": name}
    return {"name": name, "type": _choose_type([], opened.type_of(name)), "nullable_seen": True}


def _has_known_type(opened: Opened, name: str) -> bool:
    if opened.is_text:
        return True
    try:
        type_name(opened.type_of(name))
    except data_types.TypeProblem:
        return False
    return True


def delivered_schema(opened: Opened, source: SourceSpec, unknown: list[dict]) -> tuple[dict, ...]:
    """Return the schema of a delivery that fulfils its contract. ``unknown`` are its columns outside the contract."""
    known = (_known(opened, column.name, column.type) for column in source.columns)
    return (*known, *(_unknown(opened, column) for column in unknown))


def contract_schema(source: SourceSpec) -> tuple[dict, ...]:
    """Return the schema of a delivery of text that has the contract's columns, no others, and fits their types."""
    return tuple({"name": column.name, "type": column.type} for column in source.columns)


def refused_schema(
    opened: Opened, source: SourceSpec, refusal: Refusal, cached: DataFrame | None, stored: StoredRows | None = None
) -> tuple[dict, ...]:
    """Return the schema of a delivery that is refused for its columns or for their types, else nothing.

    ``cached`` are its rows, if they were read. ``stored`` returns the rows of the delivery before, whose values show
    if a column that is missing has another name now.
    """
    wanted = tuple(column.name for column in source.columns)
    if refusal.code == MISSING_COLUMN:
        known = [_known(opened, name) for name in wanted if name in opened.names and name not in opened.missing]
        unknown = [_unknown(opened, column) for column in _sampled_unknown(opened, wanted)]
        same = _same_values(opened, source, [column["name"] for column in unknown], stored)
        return (*known, *(column | same.get(column["name"], {}) for column in unknown))
    if refusal.code != VALUE_DOES_NOT_FIT:
        return ()
    return tuple(_retyped(opened, name, refusal, cached) for name in wanted)


def _known(opened: Opened, name: str, fitting: str = "") -> dict:
    """Return the description of a column of the contract; ``fitting`` is its type if all values fit that."""
    declared = opened.declared_type(name)
    if declared:
        return {"name": name, "type": declared, "declared": True}
    return {"name": name, **({"type": fitting} if fitting else {})}


def _unknown(opened: Opened, column: dict) -> dict:
    described = {"name": column["name"], **({"type": column["type"]} if column.get("type") else {})}
    return described | ({} if opened.is_text else {"declared": True})


def _sampled_unknown(opened: Opened, wanted: tuple[str, ...]) -> list[dict]:
    """Return the columns outside the contract, without types if these cannot be determined: the refusal stays."""
    try:
        return unknown_columns(opened, _records(opened).limit(SAMPLED_ROWS), wanted)
    except JAVA_ERRORS:
        return [{"name": name} for name in opened.names if name not in {*wanted, *opened.options.ignored}]


def _records(opened: Opened) -> DataFrame:
    """Return the rows of a delivery without records that have no value."""
    frame = opened.frame()
    return frame.where(~opened.is_empty_record) if opened.reader.skips_empty else frame


def _same_values(opened: Opened, source: SourceSpec, new: list[str], stored: StoredRows | None) -> dict[str, dict]:
    """Return for new columns the missing ones that had the same values: ``same_as`` with name, equal keys, all keys."""
    missing = [column.name for column in source.columns if column.name not in opened.names]
    keys = [column.name for column in source.columns if column.business_key]
    comparable = keys and missing and new and not set(keys) & set(missing) and len(missing) * len(new) <= MOST_PAIRS
    if stored is None or not comparable:
        return {}
    try:
        before = stored()
        if before is None:
            return {}
        pairs = [(place, old, now) for place, (old, now) in enumerate(product(range(len(missing)), range(len(new))))]
        counts = row_of(_paired_values(opened, before, keys, missing, new).agg(*_equal_values(pairs)).first())
    except JAVA_ERRORS:  # the delivery is refused for its columns anyway
        return {}
    same: dict[str, list] = {}
    for place, old, now in pairs:
        if counts[f"equal{place}"] and counts[f"low{place}"] != counts[f"high{place}"]:
            same.setdefault(new[now], []).append([missing[old], counts[f"equal{place}"], counts[f"all{place}"]])
    return {name: {"same_as": shares} for name, shares in same.items()}


def _paired_values(opened: Opened, before: DataFrame, keys: list[str], missing: list[str], new: list[str]) -> DataFrame:
    """Return the values of missing and new columns as text, for the keys that both deliveries have."""
    delivered = _records(opened).select(
        *(opened.column(name).cast("string").alias(f"k{place}") for place, name in enumerate(keys)),
        *(opened.column(name).cast("string").alias(f"n{place}") for place, name in enumerate(new)),
    )
    stored = before.select(
        *(F.col(quote_identifier(name)).cast("string").alias(f"k{place}") for place, name in enumerate(keys)),
        *(F.col(quote_identifier(name)).cast("string").alias(f"o{place}") for place, name in enumerate(missing)),
    )
    return delivered.join(stored, [f"k{place}" for place in range(len(keys))])


def _equal_values(pairs: list[tuple[int, int, int]]) -> list[Column]:
    """Return the aggregates of each pair; equal values count only if they are not all the same."""
    aggregates = []
    for place, old, now in pairs:
        before, after = F.col(f"o{old}"), F.col(f"n{now}")
        equal = before == after
        aggregates += [
            F.count_if(equal).alias(f"equal{place}"),
            F.count_if(before.isNotNull() | after.isNotNull()).alias(f"all{place}"),
            F.min(F.when(equal, before)).alias(f"low{place}"),
            F.max(F.when(equal, before)).alias(f"high{place}"),
        ]
    return aggregates


def _retyped(opened: Opened, name: str, refusal: Refusal, cached: DataFrame | None) -> dict:
    """Return the description of a column, with the inferred type if most of its values do not fit the contract's."""
    described = _known(opened, name)
    if name != refusal.column or cached is None or "type" in described:
        return described
    try:
        present = row_of(cached.agg(F.count(opened.column(name))).first())[0]
        if not is_retyped(refusal.count or 0, present):
            return described
        (inferred,) = inferred_columns(opened, cached, (name,))
    except (*JAVA_ERRORS, data_types.TypeProblem):
        return described
    return {"name": name, "type": inferred["type"]}
