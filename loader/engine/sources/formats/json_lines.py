"""JSON lines: one object per line, read by Spark, which preserves the literal text of values.

Spark's reader ignores keys that were not requested and any text after an object on its line. Therefore the lines are
first read once as text: their keys are collected, and malformed lines are counted. If there are any, they are read
as text beside the rows, and mark these.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.strict_json import LONE_HALF
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.engine.nested_values import is_undecoded
from loader.engine.pyspark_types import row_of
from loader.engine.sources.delivered_columns import attribute, attribute_at, nulls_read, only_parents, paths_within
from loader.engine.sources.formats.csv_files import RECORD
from loader.engine.sources.formats.text_lines import first_lines, text_lines, wrong_encoding
from loader.engine.sources.opened import Delivered, FileFormat, Group, Layout, MalformedRecord, Opened, Rows

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
_BLANKS = " \t\r"
_DECODE_HINT = "Deliver the file in UTF-8."
NO_OBJECT = "not one JSON object, or no object where a column with a path leads into one"
LONE_SURROGATE = "a text has the escape of half a surrogate pair, which no program can store"
SURROGATE_HINT = "Deliver whole characters: the writer has cut a text within one."
REPEATED_KEY = "the object names a key more than once"
# Columns of the rows while malformed lines are looked up; no delivered column has these names.
_FILE, _BLOCK, _ORDER = "\ue000file", "\ue000block", "\ue000order"
_LINE, _LINE_ORDER = "\ue000line", "\ue000line_order"


def has_lone_surrogate(text: Column) -> Column:
    """Return the condition that a JSON text escapes half of a surrogate pair, for which Java reads a question mark."""
    may_have = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    return may_have & F.rlike(F.replace(text, F.lit("\\\\"), F.lit("__")), F.lit(LONE_HALF))


def is_one_object(line: Column) -> Column:
    """Return the condition that a text is one JSON object and nothing else; it may be NULL instead of false.

    Single quotes count as quotes here; parsing with ``STRICT`` refuses them.
    """
    # Spark's parser stops after the first value. Within an array, it reaches a value that follows the text only if the
    # text is exactly one value: no text can name that one.
    follower = F.get_json_object(F.concat(F.lit("["), line, F.lit(f',"{_FOLLOWER}"]')), "$[1]")
    return F.startswith(line, F.lit("{")) & (follower == _FOLLOWER)


def repeats_a_key(text: Column) -> Column:
    """Return the condition that a text is one JSON object that names a key more than once; never NULL."""
    keys = F.json_object_keys(_trimmed(text))
    repeats = F.size(F.array_distinct(keys)) < F.size(keys)
    return F.coalesce(repeats & is_one_object(_trimmed(text)), F.lit(False))


def _trimmed(line: Column) -> Column:
    return F.trim(line, F.lit(_BLANKS))


class JsonLinesFormat(FileFormat):
    """JSON lines in UTF-8."""

    has_lines = True
    blanks = _BLANKS
    malformed = (
        MalformedRecord("BAD_JSON", NO_OBJECT, _HINT),
        MalformedRecord("WRONG_ENCODING", "cannot be decoded as UTF-8", _DECODE_HINT, "not in UTF-8", is_undecoded),
        MalformedRecord(
            "DUPLICATE_COLUMN",
            REPEATED_KEY,
            "Every key needs a name of its own.",
            "with a repeated key",
            repeats_a_key,
        ),
        MalformedRecord(
            "BAD_JSON", LONE_SURROGATE, SURROGATE_HINT, "with half of a surrogate pair", has_lone_surrogate
        ),
    )

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        lines = _read_lines(delivered, contract)
        names = lines.keys
        paths = _delivered_paths(delivered, paths_within(names, contract))
        parents = only_parents(paths, contract)
        for path in paths:
            if path.partition(".")[0] not in parents:
                raise path_conflict(delivered.name, path)
        names = tuple(name for name in names if name not in parents)
        layout = Layout.of_text(names, delivered.files, paths)
        group = replace(layout.groups[0], has_malformed_lines=lines.malformed > 0)
        return replace(layout, groups=(group,))

    def rows(self, opened: Opened, group: Group) -> Rows:
        fields = unique_ignoring_case(group.names)
        schema = object_schema(fields, group.paths).add(RECORD, T.StringType())
        frame = opened.spark.read.schema(schema).options(**STRICT).json(group.patterns)
        values = {field: attribute(field) for field in fields}
        values |= {path: attribute_at(path) for path in group.paths}
        values = {name: nulls_read(value, opened.options) for name, value in values.items()}
        if not group.has_malformed_lines:
            return Rows(frame, values, F.col(RECORD))
        frame, malformed = _with_malformed_lines(opened, group, frame), F.coalesce(F.col(_LINE), F.col(RECORD))
        return Rows(frame, values, malformed, file=F.col(_FILE), order=F.col(_ORDER), block=F.col(_BLOCK))

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
    line = _trimmed(F.col("value"))
    totals = text_lines(delivered.spark, delivered.files).agg(
        *(
            F.count_if(F.array_contains(F.json_object_keys(F.get_json_object(line, f"$.{objects}")), name))
            for objects, name in outer.values()
        )
    )
    counts = dict(zip(usual, row_of(totals.first()), strict=True))
    return tuple(path for path in paths if counts.get(path, 1))


def path_conflict(name: str, path: str) -> Refusal:
    """Return the refusal of a contract that wants an object as a whole and a value inside it."""
    parent = path.partition(".")[0]
    return Refusal(
        "NO_SUCH_PATH",
        f"{name}: JSON gives {parent} as a whole or {path} inside it, not both",
        column=path,
        hint="Take one of them out of the contract, or deliver a JSON document.",
    )


def unique_ignoring_case(names: tuple[str, ...]) -> list[str]:
    """Return the names without those that differ from an earlier one in case only, which a frame cannot hold."""
    return list({name.lower(): name for name in reversed(names)}.values())[::-1]


@dataclass(frozen=True)
class _Lines:
    """Keys of the well-formed lines, the wanted ones first, and the number of malformed lines."""

    keys: tuple[str, ...]
    malformed: int


def _read_lines(delivered: Delivered, wanted: tuple[str, ...]) -> _Lines:
    """Return what the lines hold, in one pass.

    Wanted keys that only malformed lines have count as delivered, since these lines are faults of their own; so do all
    wanted keys if no line is well-formed.

    Raise Refusal WRONG_ENCODING if no line is UTF-8, or BAD_JSON for a line that Spark's reader may take for no row or
    several ones; WRONG_ENCODING if other lines are no UTF-8, since that is then the cause.
    """
    lines = text_lines(delivered.spark, delivered.files)
    value, line = F.col("value"), _trimmed(F.col("value"))
    is_malformed, has_other_rows = _is_malformed(value), _has_other_rows(value)
    # Most lines have the same set of keys, so sets are collected.
    keys = F.array_sort(F.array_distinct(F.json_object_keys(line)))
    summary = row_of(
        lines.where(line != "")
        .agg(
            F.count(F.lit(1)).alias("lines"),
            F.count_if(is_malformed).alias("malformed"),
            F.count_if(is_undecoded(value)).alias("undecoded"),
            F.count_if(has_other_rows).alias("other_rows"),
            F.collect_set(F.when(~is_malformed, keys)).alias("key_sets"),
            F.collect_set(F.when(is_malformed, keys)).alias("malformed_key_sets"),
        )
        .first()
    )
    if summary["undecoded"] and (summary["undecoded"] == summary["lines"] or summary["other_rows"]):
        places = first_lines(delivered.spark, delivered.files, is_undecoded(value) & (line != ""))
        raise wrong_encoding("UTF-8", summary["undecoded"], *places, hint=_DECODE_HINT)
    if summary["other_rows"]:
        raise _no_json_lines(summary["other_rows"], *first_lines(delivered.spark, delivered.files, has_other_rows))
    has_rows = summary["malformed"] < summary["lines"]
    members, of_malformed = (
        {key for keys in summary[sets] for key in keys} for sets in ("key_sets", "malformed_key_sets")
    )
    first = tuple(name for name in wanted if name in members | of_malformed or not has_rows)
    return _Lines(first + tuple(sorted(members - set(first))), summary["malformed"])


def _with_malformed_lines(opened: Opened, group: Group, frame: DataFrame) -> DataFrame:
    """Return the rows of Spark's reader with their file, block and order, and the text of each malformed line.

    The reader accepts some malformed lines. The reader of text divides files into the same tasks, and both give one row
    for each line that is not blank, so the orders of the rows are equal. Raise Refusal BAD_JSON if they are not.
    """
    value, order = F.col("value"), F.monotonically_increasing_id().alias(_ORDER)
    file, block = F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.file_block_start").alias(_BLOCK)
    lines = text_lines(opened.spark, group.files).where(_trimmed(value) != "").select(order, value)
    placed = frame.select("*", file, block, order)
    if _last_orders(placed, frame.columns[0]) != _last_orders(lines, "value"):
        raise Refusal(
            "BAD_JSON",
            f"{group.files[0].shown}: Spark finds another number of rows than lines that are not blank",
            file=group.files[0].shown,
            hint=_HINT,
        )
    malformed = lines.where(_is_malformed(value)).withColumnsRenamed({_ORDER: _LINE_ORDER, "value": _LINE})
    return placed.join(malformed, F.col(_ORDER) == F.col(_LINE_ORDER), "left")


def _last_orders(frame: DataFrame, value: str) -> set[int]:
    """Return the order of the last row of each task.

    The value is read, too, because Spark does not parse lines of which nothing is read.
    """
    task = F.shiftright(_ORDER, 33)
    return {row[1] for row in frame.groupBy(task).agg(F.max(_ORDER), F.count(attribute(value))).collect()}


def _is_malformed(line: Column) -> Column:
    """Return the condition that a line is malformed; never NULL for a line."""
    one_object = F.coalesce(is_one_object(_trimmed(line)), F.lit(False))
    return is_undecoded(line) | ~one_object | repeats_a_key(line) | has_lone_surrogate(line)


def _has_other_rows(line: Column) -> Column:
    """Return the condition that Spark's reader may take a line for no row or several ones; never NULL for a line.

    It takes an array for the rows of its objects, a byte order mark before blanks for no row, and detects UTF-16.
    """
    text = F.ltrim(line, F.lit(" \t\r\ufeff"))
    is_array = F.startswith(text, F.lit("[")) & F.rlike(text, F.lit(r"^\[\s*\]|\{|null"))
    is_utf16 = F.contains(line, F.lit("\x00")) | F.hex(F.left(line.cast("binary"), F.lit(2))).isin("FEFF", "FFFE")
    return ~F.startswith(_trimmed(line), F.lit("{")) & (is_array | is_utf16 | (text == ""))


def _no_json_lines(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "BAD_JSON",
        f"{file}, line {line}: not one JSON object, but an array of objects, a byte order mark or UTF-16; "
        f"{counted(count, 'line')} in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint=f"{_HINT} An array of objects has the format json.",
    )
