"""JSON lines: one object per line, read by Spark, which preserves the literal text of values.

Spark's reader ignores keys that were not requested and any text after an object on its line, so the lines are first
read once as text: each must be one object, and the keys are collected.
"""

import re
from collections.abc import Iterable
from functools import reduce
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.refusals import Refusal
from loader.spark.sources.files import DeliveredFile
from loader.spark.sources.formats.csv_files import RECORD
from loader.spark.sources.formats.text_lines import first_lines, text_lines, wrong_encoding
from loader.spark.sources.opened import (
    Delivered,
    FileFormat,
    Group,
    Layout,
    Opened,
    Rows,
    attribute,
    attribute_at,
    nulls_read,
    only_parents,
    paths_within,
)

_USUAL_PATH = re.compile(r"\w+(\.\w+)+")
# Options of Spark's reader: a record that is no such object is delivered as RECORD, without values.
STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": RECORD,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_FOLLOWER = uuid4().hex
_HINT = "JSON lines hold one object per line, from { to }."


class JsonLinesFormat(FileFormat):
    """JSON lines in UTF-8."""

    has_lines = True
    malformed = ("BAD_JSON", "not one JSON object, or no object where a column with a path leads into one", _HINT)

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        names = keys_of_lines(delivered.spark, delivered.files, contract)
        paths = _delivered_paths(delivered, paths_within(names, contract))
        parents = only_parents(paths, contract)
        for path in paths:
            if path.partition(".")[0] not in parents:
                raise _path_conflict(delivered, path)
        return Layout.of_text(tuple(name for name in names if name not in parents), delivered.files, paths)

    def rows(self, opened: Opened, group: Group) -> Rows:
        fields = unique_ignoring_case(group.names)
        schema = object_schema(fields, group.paths).add(RECORD, T.StringType())
        frame = opened.spark.read.schema(schema).options(**STRICT).json(group.patterns)
        values = {field: attribute(field) for field in fields}
        values |= {path: attribute_at(path) for path in group.paths}
        values = {name: nulls_read(value, opened.options) for name, value in values.items()}
        return Rows(frame, values, F.col(RECORD))

    def own_types(self, opened: Opened) -> dict[str, T.DataType]:
        """Return the types of JSON's own notation.

        Empty if keys differ only in case, since Spark cannot distinguish them.
        """
        if len({name.lower() for name in opened.names}) < len(opened.names):
            return {}
        schema = opened.spark.read.json([file.pattern for file in opened.files]).schema
        return {field.name: field.dataType for field in schema}


def object_schema(fields: Iterable[str], paths: Iterable[str]) -> T.StructType:
    """Return the schema of an object with these fields as text, and with the fields inside of objects at ``paths``."""
    tree: dict[str, Any] = dict.fromkeys(fields)
    for path in paths:
        *outer, last = path.split(".")
        reduce(lambda branch, name: branch.setdefault(name, {}), outer, tree)[last] = None
    return _schema(tree)


def _schema(tree: dict[str, Any]) -> T.StructType:
    """Return the schema of a tree of names: None is a text, a dict an object."""
    kinds = {name: T.StringType() if inner is None else _schema(inner) for name, inner in tree.items()}
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


def _delivered_paths(delivered: Delivered, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths that lead to a key in any line; one through an unusual name counts as delivered."""
    usual = [path for path in paths if _USUAL_PATH.fullmatch(path)]
    if not usual:
        return paths
    outer = {path: path.rpartition(".")[::2] for path in usual}
    line = F.trim(F.col("value"), F.lit(" \t\r"))
    totals = text_lines(delivered.spark, delivered.files).agg(
        *(
            F.count_if(F.array_contains(F.json_object_keys(F.get_json_object(line, f"$.{objects}")), name))
            for objects, name in outer.values()
        )
    )
    counts = dict(zip(usual, totals.first(), strict=True))
    return tuple(path for path in paths if counts.get(path, 1))


def _path_conflict(delivered: Delivered, path: str) -> Refusal:
    parent = path.partition(".")[0]
    return Refusal(
        "NO_SUCH_PATH",
        f"{delivered.name}: JSON lines give {parent} as a whole or {path} inside it, not both",
        column=path,
        hint="Take one of them out of the contract, or deliver a JSON document.",
    )


def unique_ignoring_case(names: tuple[str, ...]) -> list[str]:
    """Return the names without those that differ from an earlier one in case only, which a frame cannot hold."""
    return list({name.lower(): name for name in reversed(names)}.values())[::-1]


def keys_of_lines(spark: SparkSession, files: tuple[DeliveredFile, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return every key of every object: the wanted ones first, then the others by name.

    If there are no lines, the wanted keys count as delivered. Raise Refusal WRONG_ENCODING, BAD_JSON or
    DUPLICATE_COLUMN with line numbers.
    """
    lines = text_lines(spark, files)
    line = F.trim(F.col("value"), F.lit(" \t\r"))
    keys = F.json_object_keys(line)
    checks = {
        "invalid": ~F.is_valid_utf8("value"),
        "bad": ~F.coalesce(is_one_object(line), F.lit(False)),
        "twice": F.size(F.array_distinct(keys)) < F.size(keys),
    }
    # Most lines have the same set of keys, so sets are collected.
    key_sets = F.collect_set(F.array_sort(F.array_distinct(keys)))
    summary = (
        lines.where(line != "")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            key_sets.alias("key_sets"),
            *(F.count_if(c).alias(n) for n, c in checks.items()),
        )
        .first()
    )
    for check, describe in (("invalid", _wrong_encoding), ("bad", _bad_json), ("twice", _duplicate_key)):
        if summary[check]:
            raise describe(summary[check], *first_lines(spark, files, checks[check] & (line != "")))
    delivered = {key for keys in summary["key_sets"] for key in keys}
    first = tuple(name for name in wanted if name in delivered or not summary["rows"])
    return first + tuple(sorted(delivered - set(first)))


def is_one_object(line: Column) -> Column:
    """Return the condition that a text is one JSON object and nothing else; it may be NULL instead of false.

    Single quotes count as quotes here; parsing with ``STRICT`` refuses them.
    """
    # Spark's parser stops after the first value. Within an array, it reaches a value that follows the text only if the
    # text is exactly one value: no text can name that one.
    follower = F.get_json_object(F.concat(F.lit("["), line, F.lit(f',"{_FOLLOWER}"]')), "$[1]")
    return F.startswith(line, F.lit("{")) & (follower == _FOLLOWER)


def _wrong_encoding(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return wrong_encoding("UTF-8", count, file, line, samples)


def _bad_json(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "BAD_JSON",
        f"{file}, line {line}: not one JSON object; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint=_HINT,
    )


def _duplicate_key(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "DUPLICATE_COLUMN",
        f"{file}, line {line}: the object names a key more than once; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="Every key needs a name of its own.",
    )
