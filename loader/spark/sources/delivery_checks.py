"""Checks of a delivery by row and key, with the places of errors.

One pass reads all rows, another all keys; only a refused delivery is read again, to locate the errors. Checks
whose failure could cause others come first: encoding, shape, values, NULLs.
"""

from contextlib import nullcontext
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from loader.domain.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.refusals import Refusal
from loader.domain.sources.marks import NULL_WATERMARK
from loader.spark.expressions import all_of, any_of, comes_twice, fits, total, typed
from loader.spark.historization.difference import ONE_TASK_UP_TO_ROWS
from loader.spark.sources.files import from_uri, shown, whole_files
from loader.spark.sources.formats.csv_quotes import checked_quotes
from loader.spark.sources.formats.text_lines import first_lines, text_lines, wrong_encoding
from loader.spark.sources.opened import FILE, MALFORMED, ORDER, Opened, Place
from loader.spark.value_formats import standard_text
from metadata.domain import types as data_types
from metadata.domain.sources.option_kinds import LATEST
from metadata.domain.sources.value_formats import ValueFormats

# Places of errors in a delivery: file, record and, if it is certain, line.
#
# Used only for a refused delivery: it is read again in whole files with numbered rows.


SAMPLES = 5
_SAMPLE_LENGTH = 80  # characters


def first_places(opened: Opened, wrong: Column, text: Column) -> list[Place]:
    """Return the first ``wrong`` rows in the order of files and rows; ``text`` describes them."""
    described = F.left(F.coalesce(text.cast("string"), F.lit("NULL")), F.lit(_SAMPLE_LENGTH))
    if (own := opened.own_places(wrong, described, SAMPLES)) is not None:
        return own
    numbers = opened.reader.numbers
    with nullcontext() if numbers else whole_files(opened.spark):
        numbered = opened.frame(numbered=True).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        try:
            rows = numbered.where(wrong).orderBy(FILE, ORDER).limit(SAMPLES).select(FILE, ORDER, described).collect()
            places = [(numbers, row[ORDER]) for row in rows] if numbers else _lines_or_records(opened, numbered, rows)
        finally:
            numbered.unpersist()
    return [
        Place(shown(from_uri(row[FILE])), word, number, row[2])
        for row, (word, number) in zip(rows, places, strict=True)
    ]


def _lines_or_records(opened: Opened, numbered: DataFrame, rows: list) -> list[tuple[str, int]]:
    """Return each row's line, or its record where the line is uncertain."""
    starts = dict(numbered.groupBy(FILE).agg(F.min(ORDER)).collect())
    lines = _line_numbers(opened, numbered, rows, starts)
    records = [row[ORDER] - starts[row[FILE]] + 1 for row in rows]
    return [("line", line) if line else ("record", record) for line, record in zip(lines, records, strict=True)]


def _line_numbers(opened: Opened, numbered: DataFrame, rows: list, starts: dict[str, int]) -> list[int | None]:
    """Return each row's line, computed from the rows and line ends before it; None if it is uncertain.

    Skipped blank lines make it uncertain.
    """
    if not opened.reader.has_lines or not rows or opened.options.is_wide:
        return [None] * len(rows)
    skipped = _files_with_blank_lines(opened)
    spanning = opened.names if opened.reader.spans_lines else ()
    line_ends = [_line_ends(F.col(f"d{place}")) for place, _ in enumerate(spanning)]
    inside = F.when(F.col(MALFORMED).isNotNull(), _line_ends(F.col(MALFORMED))).otherwise(total(line_ends))
    before = numbered.agg(
        *(
            F.sum(F.when((F.col(FILE) == row[FILE]) & (F.col(ORDER) < row[ORDER]), inside)).alias(str(place))
            for place, row in enumerate(rows)
        )
    ).first()
    lines = []
    for place, row in enumerate(rows):
        path = from_uri(row[FILE])
        header = opened.header_lines.get(path, 0)
        line = header + (before[place] or 0) + row[ORDER] - starts[row[FILE]] + 1
        lines.append(None if path in skipped else line)
    return lines


def _line_ends(text: Column) -> Column:
    without = F.replace(text, F.lit("\n"), F.lit(""))
    return F.coalesce(F.char_length(text) - F.char_length(without), F.lit(0))


def _files_with_blank_lines(opened: Opened) -> set[str]:
    blank = F.trim(F.col("value"), F.lit("\r")) == ""
    files = text_lines(opened.spark, opened.files).where(blank).select(F.col("_metadata.file_path")).distinct()
    return {from_uri(row[0]) for row in files.collect()}


_PLACE_IN_ORDER = "__place_in_order"
_REPLACEMENT = "\ufffd"  # Java's replacement for bytes that are no character


def converted(opened: Opened, column: DeliveredColumn, options: dict) -> Column:
    """Return a delivered column in its contract's type."""
    return typed(opened.column(column.name), column.type, options, opened.type_of(column.name))


@dataclass(frozen=True)
class Checked:
    """Result of the row checks: number of rows, and warnings about accepted values."""

    rows: int
    warnings: tuple[str, ...]


def check_rows(opened: Opened, frame: DataFrame, source: SourceSpec) -> Checked:
    """Check every row against the contract in one pass.

    Raise Refusal UNCLOSED_QUOTE, STRAY_QUOTE, WRONG_ENCODING, RAGGED_ROW, VALUE_DOES_NOT_FIT, NULL_KEY, NULL_VALUE or
    NULL_WATERMARK.
    """
    misfits = {column: _misfit(opened, column, source.options) for column in source.columns}
    null_key = any_of([opened.column(column.name).isNull() for column in source.columns if column.business_key])
    watermark = [opened.column(name) for name in source.intake.get("watermark", ())]
    null_watermark = all_of([column.isNull() for column in watermark]) if watermark else F.lit(False)
    required = [column for column in source.columns if not column.nullable and not column.business_key]
    zone = opened.options.timezone
    local = [c for c in source.columns if c.type == data_types.TIMESTAMP and zone != "UTC"]
    twice = [F.count_if(_comes_twice(opened, c.name, source.options)) for c in local]
    replaced = [F.contains(opened.column(name), F.lit(_REPLACEMENT)) for name in opened.names]
    with checked_quotes(opened):
        totals = frame.agg(
            F.count(F.lit(1)).alias("rows"),
            F.count(MALFORMED).alias("malformed"),
            F.count_if(any_of(replaced if opened.reader.is_decoded else [])).alias("replaced"),
            F.count_if(null_key).alias("null_key"),
            F.count_if(null_watermark).alias("null_watermark"),
            *(F.count_if(misfit).alias(f"misfit_{place}") for place, misfit in enumerate(misfits.values())),
            *(F.count_if(opened.lacks(c.name)).alias(f"null_{place}") for place, c in enumerate(required)),
            *(count.alias(f"twice_{place}") for place, count in enumerate(twice)),
        ).first()
    if totals["replaced"]:
        _check_encoding(opened, any_of(replaced), totals["replaced"])
    if totals["malformed"]:
        raise _malformed_record(opened, totals["malformed"])
    counts = {column: totals[f"misfit_{place}"] for place, column in enumerate(misfits)}
    if any(counts.values()):
        raise _unfit_value(opened, misfits, {column: count for column, count in counts.items() if count})
    if totals["null_key"]:
        raise _null_key(opened, source, null_key, totals["null_key"])
    for place, column in enumerate(required):
        if totals[f"null_{place}"]:
            raise _null_value(opened, source, column, totals[f"null_{place}"])
    if totals["null_watermark"]:
        raise _null_watermark(opened, source, null_watermark, totals["null_watermark"])
    counts = {column: totals[f"twice_{place}"] for place, column in enumerate(local)}
    warnings = tuple(
        f"{count} times of {column.name} come twice in {zone}, when its clocks are put back: the earlier was taken."
        for column, count in counts.items()
        if count
    )
    return Checked(totals["rows"], warnings)


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a delivery with one row per key, and the numbers of rows left out.

    ``duplicates`` were identical to the row that stays, ``superseded`` come before or after it by the source's order.
    """

    frame: DataFrame
    duplicates: int = 0
    superseded: int = 0


def check_keys(opened: Opened, frame: DataFrame, source: SourceSpec, rows: int) -> KeyedRows:
    """Return the rows without repeated keys. Rows compare by typed values.

    Raise Refusal CONFLICTING_ROWS if rows of one key differ that the source does not order. Without a key in the
    contract, and in a feed, where a key has many rows, all rows stay. A database guarantees its primary key.
    """
    if not source.one_row_per_key or opened.key_is_unique:
        return KeyedRows(frame)
    keys = {
        f"k{place}": converted(opened, column, source.options)
        for place, column in enumerate(column for column in source.columns if column.business_key)
    }
    if not keys or rows < 2 or _hashes_differ(frame, list(keys.values()), rows):
        return KeyedRows(frame)
    chosen, superseded = frame, 0
    if opened.options.deduplicate is not None:
        chosen = _first_in_order(opened, frame, source, list(keys.values()))
        superseded = rows - chosen.count()
    distinct, duplicates = _one_row_per_key(opened, chosen, source, keys, rows - superseded)
    return KeyedRows(distinct, duplicates, superseded)


def _first_in_order(opened: Opened, frame: DataFrame, source: SourceSpec, keys: list[Column]) -> DataFrame:
    """Return the rows of each key that come last, or first, by the source's order; several if they are equal in it.

    Raise Refusal BAD_OPTION for a column that the contract lacks.
    """
    declared = {column.name: column for column in source.columns}
    missing = [name for name in opened.options.order if name not in declared]
    if missing:
        raise Refusal(
            "BAD_OPTION",
            f"{source.name}: its option order_by names {missing[0]}, which is no column of the contract",
            hint="Name columns of the source.",
        )
    values = [converted(opened, declared[name], source.options) for name in opened.options.order]
    latest = opened.options.deduplicate == LATEST
    ordered = [value.desc_nulls_last() if latest else value.asc_nulls_last() for value in values]
    place = F.rank().over(Window.partitionBy(*keys).orderBy(*ordered))
    return frame.withColumn(_PLACE_IN_ORDER, place).where(F.col(_PLACE_IN_ORDER) == 1).drop(_PLACE_IN_ORDER)


def _one_row_per_key(
    opened: Opened, frame: DataFrame, source: SourceSpec, keys: dict[str, Column], rows: int
) -> tuple[DataFrame, int]:
    """Return the frame without repeated identical rows, and their number. Raise Refusal CONFLICTING_ROWS."""
    grouping = [key.alias(name) for name, key in keys.items()]
    # A hash leaves NULL out, so each value is followed by its position: ("a", NULL) is not (NULL, "a").
    parts = []
    for place, column in enumerate(source.columns):
        parts += [converted(opened, column, source.options), F.lit(place)]
    per_key = frame.groupBy(*grouping).agg(
        F.count(F.lit(1)).alias("n"), F.min(F.xxhash64(*parts)).alias("low"), F.max(F.xxhash64(*parts)).alias("high")
    )
    different = per_key.where(F.col("low") != F.col("high"))
    totals = per_key.agg(F.count(F.lit(1)), F.count_if(F.col("low") != F.col("high"))).first()
    duplicates, conflicts = rows - totals[0], totals[1]
    if not duplicates:
        return frame, 0
    if conflicts:
        raise _conflicting_rows(opened, source, different, list(keys), conflicts)
    return frame.withColumns(keys).dropDuplicates(list(keys)).drop(*keys), duplicates


def _hashes_differ(frame: DataFrame, keys: list[Column], rows: int) -> bool:
    """Return True if every row's key has a different hash, so that no key is repeated.

    Equal hashes prove nothing: the keys may still differ.
    """
    hashes = frame.select(F.xxhash64(*keys).alias("hash"))
    if rows <= ONE_TASK_UP_TO_ROWS:
        hashes = hashes.coalesce(1)
    else:
        hashes = hashes.repartition(frame.sparkSession.sparkContext.defaultParallelism, "hash")
    return hashes.distinct().count() == rows


def _misfit(opened: Opened, column: DeliveredColumn, options: dict) -> Column:
    misfit = ~fits(opened.column(column.name), column.type, options, opened.type_of(column.name))
    return opened.unfit(column.name) | misfit


def _comes_twice(opened: Opened, name: str, options: dict) -> Column:
    """Return the condition that a timestamp without offset is repeated by a clock change."""
    value, source = opened.column(name), opened.type_of(name)
    if isinstance(source, T.StringType):
        value = standard_text(value, data_types.TIMESTAMP, ValueFormats.of(options))
    return comes_twice(value, source, opened.options.timezone)


def _check_encoding(opened: Opened, replaced: Column, count: int) -> None:
    """Raise Refusal WRONG_ENCODING for replacement characters that the file itself does not contain.

    In UTF-8 the file's bytes are checked; other encodings cannot contain the character.
    """
    if not opened.options.is_utf8:
        places = first_places(opened, replaced, F.concat_ws(",", *(opened.column(name) for name in opened.names)))
        raise Refusal(
            "WRONG_ENCODING",
            f"{places[0].file}, {places[0].name}: not {opened.options.encoding}; {count} rows in all",
            file=places[0].file,
            row=places[0].number,
            count=count,
            samples=tuple(place.sample for place in places),
            hint="Say the file's encoding in the source's options, or deliver it in the one that is said.",
        )
    invalid = ~F.is_valid_utf8("value")
    lines = text_lines(opened.spark, opened.files).where(invalid).count()
    if lines:
        raise wrong_encoding("UTF-8", lines, *first_lines(opened.spark, opened.files, invalid))


def _malformed_record(opened: Opened, count: int) -> Refusal:
    code, wrong, hint = opened.reader.malformed
    places = first_places(opened, F.col(MALFORMED).isNotNull(), F.col(MALFORMED))
    first = places[0]
    return Refusal(
        code,
        f"{first.where}: {wrong.format(count=len(opened.names))}; {count} rows in all",
        file=first.file,
        row=first.number,
        count=count,
        samples=tuple(place.sample for place in places),
        hint=hint,
    )


def _unfit_value(opened: Opened, misfits: dict[DeliveredColumn, Column], counts: dict[DeliveredColumn, int]) -> Refusal:
    column, *others = counts
    places = first_places(opened, misfits[column], opened.text_of(column.name))
    first = places[0]
    also = "".join(f"; {counts[other]} in {other.name} ({other.type})" for other in others)
    return Refusal(
        "VALUE_DOES_NOT_FIT",
        f"{first.where}, column {column.name}: a value does not fit {column.type}; "
        f"{counts[column]} values of this column in all{also}",
        file=first.file,
        row=first.number,
        column=column.name,
        count=counts[column],
        samples=tuple(place.sample for place in places),
        hint="Correct the delivery, or change the column's type." + _skipped_time_hint(column, opened.options.timezone),
    )


def _skipped_time_hint(column: DeliveredColumn, zone: str) -> str:
    if column.type != data_types.TIMESTAMP or zone == "UTC":
        return ""
    return f" A time that the clocks of {zone} skip, as summer time begins, does not fit either."


def _null_key(opened: Opened, source: SourceSpec, null_key: Column, count: int) -> Refusal:
    keys = [column for column in source.columns if column.business_key]
    places = first_places(opened, null_key, _row_text(opened, source.columns))
    first = places[0]
    return Refusal(
        "NULL_KEY",
        f"{first.where}: no value in the business key ({', '.join(key.name for key in keys)}); {count} rows in all",
        file=first.file,
        row=first.number,
        column=keys[0].name,
        count=count,
        samples=tuple(place.sample for place in places),
        hint="Every row needs a value in every column of its business key.",
    )


def _null_value(opened: Opened, source: SourceSpec, column: DeliveredColumn, count: int) -> Refusal:
    places = first_places(opened, opened.lacks(column.name), _row_text(opened, source.columns))
    first = places[0]
    return Refusal(
        "NULL_VALUE",
        f"{first.where}: no value in {column.name}, which may not be NULL; {count} rows in all",
        file=first.file,
        row=first.number,
        column=column.name,
        count=count,
        samples=tuple(place.sample for place in places),
        hint="Deliver a value, or let the contract allow NULL.",
    )


def _null_watermark(opened: Opened, source: SourceSpec, null_watermark: Column, count: int) -> Refusal:
    names = source.intake["watermark"]
    places = first_places(opened, null_watermark, _row_text(opened, source.columns))
    return Refusal(
        NULL_WATERMARK,
        f"{places[0].where}: no value in the watermark ({', '.join(names)}); {count} rows in all",
        file=places[0].file,
        column=names[0],
        count=count,
        samples=tuple(place.sample for place in places),
        hint="Without a value a load cannot know if the row is new. Fill the column in the source, leave the rows out "
        "with the option filter, or name a further watermark column that has a value.",
    )


def _row_text(opened: Opened, columns: tuple[DeliveredColumn, ...]) -> Column:
    """Return a row as ``name=value`` of its columns, key first; samples truncate it."""
    ordered = sorted(columns, key=lambda column: not column.business_key)
    values = [
        F.concat(F.lit(f"{c.name}="), F.coalesce(opened.column(c.name).cast("string"), F.lit("NULL"))) for c in ordered
    ]
    return F.concat_ws(", ", *values)


def _conflicting_rows(opened: Opened, source: SourceSpec, different: DataFrame, keys: list[str], count: int) -> Refusal:
    names = [column.name for column in source.columns if column.business_key]
    rows = different.orderBy(*keys).limit(SAMPLES).select("n", *(F.col(key).cast("string") for key in keys)).collect()
    samples = tuple(
        ", ".join(f"{name}={value}" for name, value in zip(names, row[1:], strict=True)) + f" ({row['n']} rows)"
        for row in rows
    )
    return Refusal(
        "CONFLICTING_ROWS",
        f"{opened.shown}: {count} keys have rows that differ",
        file=opened.first_shown,
        column=names[0],
        count=count,
        samples=samples,
        hint="A delivery holds one row per business key; identical rows count as one. The source's options deduplicate "
        "and order_by say which of several rows is kept.",
    )
