"""Delivery as Spark reads it.

In every format the frame has the columns ``d0`` … in the order of ``names``, and ``malformed``: the text of a
record with too few or too many fields or invalid JSON, else NULL. Text formats give text, Parquet its own
types.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.refusals import Refusal
from loader.spark.expressions import united
from loader.spark.sources.files import (
    JAVA_ERRORS,
    DeliveredFile,
    check_ended,
    check_places,
    check_unchanged,
    list_files,
    unreadable,
)
from loader.spark.sources.formats import (
    CSV,
    PARQUET,
    Beginning,
    Options,
    checked_options,
    header_names,
    keys_of_lines,
    read_beginning,
)
from metadata.domain.locations import Roots

FILE, ORDER, MALFORMED = "file", "order", "malformed"
_RECORD = "\ue000record"  # the same while reading, where a JSON key could have any usual name

# A field this long means a quote that is never closed. Reading on would fill the memory.
_LONGEST_FIELD = 16_000_000  # characters
# Replaces an empty field without quotes, to distinguish it from a quoted one; it occurs in no delivery.
_ABSENT = "\ue000absent\ue000"
# Spark's exceptions for bytes that do not match a file's format.
_READ_FAILURES = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER", "MALFORMED_CSV_RECORD")


@dataclass(frozen=True)
class Opened:
    """Files and columns of an opened delivery.

    ``header_lines`` gives by file path the number of lines before the first record.
    """

    spark: SparkSession
    name: str
    location: str
    roots: Roots
    format: str
    options: Options
    files: tuple[DeliveredFile, ...]
    names: tuple[str, ...]
    types: tuple[T.DataType, ...]
    missing: dict[str, tuple[str, ...]]
    header_lines: dict[str, int]
    groups: tuple["_Group", ...]

    @property
    def shown(self) -> str:
        """Name of the delivery in messages: its first file, and the number of others."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return self.files[0].shown + more

    @property
    def first_shown(self) -> str:
        """Name in messages of the place where the delivery begins."""
        return self.files[0].shown

    @property
    def is_text(self) -> bool:
        return self.format != PARQUET

    @property
    def is_read_again(self) -> bool:
        """Return True if the rows are not kept while they are checked, but read again for writing."""
        return not self.is_text

    def column(self, name: str) -> Column:
        return F.col(f"d{self.names.index(name)}")

    def text_of(self, name: str) -> Column:
        """Return a column's values for messages."""
        return self.column(name)

    def unfit(self, name: str) -> Column:
        """Return the condition that a value cannot be read, and so is NULL in the frame; never NULL itself."""
        return F.lit(False)

    def type_of(self, name: str) -> T.DataType:
        return self.types[self.names.index(name)]

    def frame(self, *, numbered: bool = False) -> DataFrame:
        """Return the rows; ``numbered`` adds ``file`` and ``order``, which increases along the file.

        A numbered frame serves to locate errors. Persist it before selecting columns, and read it inside
        ``loader.spark.sources.files.whole_files``.
        """
        frames = [_group_frame(self, group, numbered) for group in self.groups]
        return united(frames)

    @contextmanager
    def reading(self, *, again: bool) -> Iterator[None]:
        """Convert read errors into Refusal UNREADABLE_FILE, or CHANGED_FILE for files that are read ``again``."""
        try:
            yield
        except JAVA_ERRORS as error:
            if again:
                self.check_unchanged()
            if any(name in str(error) for name in _READ_FAILURES):
                raise unreadable(self.shown, error) from error
            raise

    def check_unchanged(self) -> None:
        """Raise Refusal CHANGED_FILE if a file changed since it was listed."""
        check_unchanged(self.spark, self.location, self.roots, self.files)

    def check_places(self) -> None:
        """Raise Refusal OUTSIDE_ROOTS if a link now leads out of the source roots."""
        check_places(self.location, self.roots, self.files)

    def release(self) -> None:
        """Release what was opened for reading; of files that is nothing."""


@dataclass(frozen=True)
class _Group:
    """Files with the same layout; ``names`` are the delivery's names of their fields, in order."""

    files: tuple[DeliveredFile, ...]
    names: tuple[str, ...]
    separator: str | None = None


def open_delivery(
    spark: SparkSession,
    name: str,
    location: str,
    format_name: str,
    options: dict,
    contract: tuple[str, ...] = (),
    *,
    roots: Roots,
    files: tuple[DeliveredFile, ...] = (),
) -> Opened:
    """Find the files and their columns. ``contract`` names the columns of CSV without a header.

    The files must be below ``roots``; ``files`` selects some of the location's files, by default all.

    Raise Refusal for errors of the whole delivery: see ``loader.spark.sources.deliveries``.
    """
    checked = checked_options(spark, name, format_name, options)
    files = files or tuple(list_files(spark, location, roots))
    for file in files:
        check_ended(spark, file)
    facts = {
        "spark": spark,
        "name": name,
        "location": location,
        "roots": roots,
        "format": format_name,
        "options": checked,
        "files": files,
    }
    if format_name == CSV:
        return _open_csv(facts, contract)
    if format_name == PARQUET:
        return _open_parquet(facts)
    names = keys_of_lines(spark, files, contract)
    types = tuple(T.StringType() for _ in names)
    group = _Group(files, names)
    return Opened(**facts, names=names, types=types, missing={}, header_lines={}, groups=(group,))


def _open_csv(facts: dict, contract: tuple[str, ...]) -> Opened:
    """Read CSV files grouped by the order of their columns; the groups are united by column name."""
    options: Options = facts["options"]
    layouts: dict[tuple, list[DeliveredFile]] = {}
    begins: dict[str, Beginning] = {}
    for file in facts["files"]:
        begin = begins[file.path] = read_beginning(facts["spark"], file, options)
        if options.header:
            names = header_names(file, begin.fields)
        else:
            names = contract or tuple(f"column_{place}" for place, _ in enumerate(begin.fields, start=1))
        layouts.setdefault((names, begin.separator), []).append(file)
    groups = tuple(_Group(tuple(files), names, separator) for (names, separator), files in layouts.items())
    everything = tuple(dict.fromkeys(name for group in groups for name in group.names))
    missing = {}
    for group in groups:
        for name in everything:
            if name not in group.names:
                missing[name] = (*missing.get(name, ()), *(file.shown for file in group.files))
    return Opened(
        **facts,
        names=everything,
        types=tuple(T.StringType() for _ in everything),
        missing=missing,
        header_lines={path: begin.lines if options.header else 0 for path, begin in begins.items()},
        groups=groups,
    )


def _open_parquet(facts: dict) -> Opened:
    spark, files = facts["spark"], facts["files"]
    try:
        schema = _parquet_reader(spark, files).load([file.pattern for file in files]).schema
    except JAVA_ERRORS as error:
        raise unreadable(files[0].shown, error) from error
    names = tuple(field.name for field in schema)
    types = tuple(field.dataType for field in schema)
    return Opened(**facts, names=names, types=types, missing={}, header_lines={}, groups=(_Group(files, names),))


def _parquet_reader(spark: SparkSession, files: tuple[DeliveredFile, ...]):
    return spark.read.format("parquet").option("mergeSchema", str(len(files) > 1).lower())


def _group_frame(opened: Opened, group: _Group, numbered: bool) -> DataFrame:
    paths = [file.pattern for file in group.files]
    if opened.format == PARQUET:
        frame = _parquet_reader(opened.spark, opened.files).load(paths)
        values = {name: _attribute(frame, name) for name in group.names}
        malformed = F.lit(None).cast("string")
    else:
        frame, malformed, values = _text_frame(opened, group, paths)
    order = [F.col("_metadata.file_path").alias(FILE), F.monotonically_increasing_id().alias(ORDER)] if numbered else []
    absent = F.lit(None).cast("string")
    columns = [values.get(name, absent).alias(f"d{place}") for place, name in enumerate(opened.names)]
    return frame.select(*columns, malformed.alias(MALFORMED), *order)


def _attribute(frame: DataFrame, name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _text_frame(opened: Opened, group: _Group, paths: list[str]) -> tuple[DataFrame, Column, dict[str, Column]]:
    # CSV by place, for a header may hold any text; JSON is read by its keys.
    csv = opened.format == CSV
    fields = [f"f{place}" for place, _ in enumerate(group.names)] if csv else _one_per_case(group.names)
    schema = T.StructType([T.StructField(name, T.StringType()) for name in (*fields, _RECORD)])
    reader = opened.spark.read.schema(schema).options(mode="PERMISSIVE", columnNameOfCorruptRecord=_RECORD)
    if csv:
        frame = reader.options(**reading_options(opened.options, group.separator)).csv(paths)
        frame, values = _csv_values(frame, fields, group.separator)
    else:
        frame = reader.options(allowSingleQuotes="false", allowNonNumericNumbers="false").json(paths)
        values = [F.nullif(_attribute(frame, field), F.lit("")) for field in fields]
        if not opened.options.empty_is_null:
            values = [_attribute(frame, field) for field in fields]
    null_string = opened.options.null_string
    if null_string is not None:
        values = [F.when(value != null_string, value) for value in values]
    names = group.names if csv else fields
    return frame, F.col(_RECORD), dict(zip(names, values, strict=True))


def _one_per_case(names: tuple[str, ...]) -> list[str]:
    """Return the names without those that differ from an earlier one in case only, which a frame cannot hold."""
    return list({name.lower(): name for name in reversed(names)}.values())[::-1]


def _csv_values(frame: DataFrame, fields: list[str], separator: str | None) -> tuple[DataFrame, list[Column]]:
    """Return the fields without the CR of a CR LF line end.

    Spark gets LF as line end, so that a CR LF inside quotes is preserved and one file may contain both
    kinds. The CR is then the end of the last field, or a blank line.
    """
    values = [F.col(field) for field in fields]
    if separator != "\n":
        return frame, values
    last = values[-1]
    blank = (last == "\r") if len(fields) == 1 else (F.col(_RECORD) == "")
    without = F.when(last != "\r", F.left(last, F.char_length(last) - 1))
    ended = F.when(F.endswith(last, F.lit("\r")), without).otherwise(last)
    return frame.where(~F.coalesce(blank, F.lit(False))), [*values[:-1], ended]


def reading_options(options: Options, separator: str | None) -> dict[str, str]:
    """Return the options of Spark's CSV reader; without a separator Spark detects the line end."""
    said = {
        "header": str(options.header).lower(),
        "sep": options.delimiter,
        "quote": options.quote,
        "escape": options.escape,
        "encoding": options.encoding,
        "multiLine": "true",
        "maxCharsPerColumn": str(_LONGEST_FIELD),
        "nullValue": "" if options.empty_is_null else _ABSENT,
        "emptyValue": "",
    }
    return said | ({"lineSep": separator} if separator else {})


def missing_columns(opened: Opened, wanted: tuple[str, ...]) -> None:
    """Raise Refusal MISSING_COLUMN if the delivery, or any of its files, lacks a column of the contract."""
    absent = [name for name in wanted if name not in opened.names or name in opened.missing]
    if not absent:
        return
    where = next((opened.missing[name][0] for name in absent if name in opened.missing), opened.first_shown)
    similar = [
        f"{there} is delivered instead of {name}"
        for name in absent
        for there in opened.names
        if there.lower() == name.lower() and there != name
    ]
    raise Refusal(
        "MISSING_COLUMN",
        f"{where} lacks {'the column' if len(absent) == 1 else 'the columns'} {', '.join(absent)}",
        file=where,
        column=absent[0],
        count=len(absent),
        samples=tuple(absent[:5]),
        hint="; ".join(similar) + (": the case of names counts." if similar else "")
        or "Deliver it, or take it out of the contract.",
    )
