"""Columns of a delivery: names and paths into structs, types, and texts that stand for NULL or are a key."""

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.engine.value_formats import BLANKS
from metadata.domain import types as data_types
from metadata.domain.sources.reading_options import ReadingOptions


def trimmed_key(value: Column, options: ReadingOptions) -> Column:
    """Return text of the business key without blanks around it, if the options say so."""
    return F.trim(value, F.lit(BLANKS)) if options.trim_keys else value


def folded_key(value: Column, options: ReadingOptions) -> Column:
    """Return text of the business key in the case that the options name."""
    if options.fold_keys is None:
        return value
    folded = F.upper(value) if options.fold_keys == "upper" else F.lower(value)
    # Java replaces bytes that are not UTF-8 while it folds, and the checks would not find them any more.
    return F.when(F.is_valid_utf8(value), folded).otherwise(value)


def type_name(declared: T.DataType) -> str | None:
    """Return the data type for a Spark type; None for a column without values."""
    match declared:
        case T.NullType():
            return None
        case T.StructType() | T.ArrayType() | T.MapType() | T.VariantType():
            return data_types.JSON
        case T.TimeType():
            return data_types.TIME
    return str(data_types.from_spark(declared.simpleString()))


def attribute(name: str) -> Column:
    """Return the column of this exact name; a dot in it does not lead into a struct."""
    return F.col("`" + name.replace("`", "``") + "`")


def attribute_at(path: str) -> Column:
    """Return the field at a path like ``a.b`` into structs."""
    first, *inner = path.split(".")
    return reduce(lambda column, name: column.getField(name), inner, attribute(first))


def paths_within(names: Iterable[str], contract: Iterable[str]) -> tuple[str, ...]:
    """Return the contract's columns that are paths (``a.b``) into one of the delivered columns."""
    known = set(names)
    return tuple(name for name in contract if name not in known and name.partition(".")[0] in known and "." in name)


def only_parents(paths: Iterable[str], contract: Iterable[str]) -> set[str]:
    """Return the columns of which only paths are wanted."""
    return {path.partition(".")[0] for path in paths}.difference(contract)


def nulls_read(value: Column, options: ReadingOptions, *, empty: bool = True) -> Column:
    """Return a text value with the texts that stand for NULL replaced; ``empty`` False leaves empty texts."""
    if empty and options.empty_is_null:
        value = F.nullif(value, F.lit(""))
    return value if options.null_string is None else F.when(value != options.null_string, value)
