"""Faults of single rows in a delivery, by class.

One pass reads all rows and counts the faults of every class; only a delivery with faults is read again, to locate them.
A malformed record has no other fault. Open quotes, and wrong encoding except of single JSON lines, messages and texts
of typed files, are faults of the whole delivery, since no value of it can be trusted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.words import counted
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.encodings import c1_warning, encoding_hint, joined_files_warning
from loader.domain.sources.marks import NULL_WATERMARK
from loader.domain.sources.repeated_headers import (
    BYTE_ORDER_MARK,
    JOINED_HINT,
    REPEATED_HEADER,
    may_be_repeated,
)
from loader.domain.sources.schema_changes import VALUE_DOES_NOT_FIT
from loader.engine.conversions import fits, is_ambiguous_time, typed
from loader.engine.expressions import all_of, any_of
from loader.engine.nested_values import has_undecoded_text
from loader.engine.pyspark_types import row_of
from loader.engine.sources.checks.places import first_places
from loader.engine.sources.formats.csv_quotes import checked_quotes
from loader.engine.sources.formats.text_lines import first_lines, text_lines, wrong_encoding
from loader.engine.sources.opened import MALFORMED, Opened, Place
from loader.engine.value_formats import standard_text
from metadata.domain import types as data_types
from metadata.domain.sources.formats import CSV, FIXED
from metadata.domain.sources.option_kinds import REFUSE
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.text_formats import BLANKS

_NAMES_COMPARED = 50  # of a header with the values of a record
_REPLACEMENT = "\ufffd"  # Java's replacement for bytes that are no character


def converted(opened: Opened, column: DeliveredColumn, options: dict) -> Column:
    """Return a delivered column in its contract's type."""
    return typed(opened.column(column.name), column.type, options, opened.type_of(column.name))


@dataclass(frozen=True)
class FaultClass:
    """Faults of one kind, of one column or of whole rows.

    ``condition`` is that of the rows, ``text`` shows one of them. A refusal says where the first is, then ``problem``,
    or what ``describe`` says of the first; ``noun`` is what it counts, and ``summary`` follows the count if the class
    is named among others.
    """

    code: str
    condition: Column
    text: Column
    problem: str
    summary: str
    hint: str
    column: str = ""
    noun: str = "row"
    describe: Callable[[Place], str] | None = None

    @property
    def reason(self) -> str:
        """Return why a row is rejected: the code, and the column if it is one column's fault."""
        return f"{self.code} {self.column}".strip()

    def refusal(self, opened: Opened, count: int, places: Sequence[Place]) -> Refusal:
        """Return the refusal for this class. Without places it names the delivery."""
        first = places[0] if places else Place(opened.first_shown, "", None, "")
        problem = self.describe(first) if self.describe is not None and places else self.problem
        in_all = f"; {counted(count, self.noun)} in all" if count > 1 else ""
        return Refusal(
            self.code,
            f"{first.where}: {problem}{in_all}",
            file=first.file,
            row=first.number,
            column=self.column,
            count=count,
            samples=tuple(place.sample for place in places),
            hint=self.hint,
        )


@dataclass(frozen=True)
class CheckResult:
    """Result of the row checks: number of rows, warnings about accepted values, and the faults with their counts.

    ``empty`` counts the records without any value, which are no rows.
    """

    rows: int
    warnings: tuple[str, ...]
    faults: tuple[tuple[FaultClass, int], ...] = ()
    empty: int = 0

    @property
    def has_fault(self) -> Column:
        """Return the condition of the rows with faults."""
        return F.coalesce(any_of(fault_class.condition for fault_class, _ in self.faults), F.lit(False))

    def refusal(self, opened: Opened, numbered: DataFrame, conflict: Refusal | None = None) -> Refusal | None:
        """Return the refusal for the first class with all classes; ``conflict`` is that of keys, the last class."""
        wanted = [(fault_class.condition, fault_class.text) for fault_class, _ in self.faults]
        places = first_places(opened, numbered, wanted) if wanted else []
        refusals = [
            fault_class.refusal(opened, count, at) for (fault_class, count), at in zip(self.faults, places, strict=True)
        ]
        summaries = [f"{counted(count, fault_class.noun)} {fault_class.summary}" for fault_class, count in self.faults]
        if conflict is not None:
            refusals.append(conflict)
            summaries.append(f"{counted(conflict.count or 0, 'key')} with rows that differ")
        if not refusals:
            return None
        first, others = refusals[0], ", ".join(summaries[1:])
        message = f"{first.message}; besides: {others}" if others else first.message
        return replace(first, message=message, faults=tuple(refusals))


def check_rows(opened: Opened, numbered: DataFrame, source: SourceSpec) -> CheckResult:
    """Count the faults of every row in one pass. ``numbered`` are the rows, with their numbers if there are files.

    Raise Refusal UNCLOSED_QUOTE, STRAY_QUOTE or WRONG_ENCODING.
    """
    fault_classes, zone = classes_of_faults(opened, source), opened.options.timezone
    local = [c for c in source.columns if c.type == data_types.TIMESTAMP and zone != "UTC"]
    ambiguous = [F.count_if(_is_ambiguous_time(opened, c.name, source.options)) for c in local]
    replaced = [F.contains(opened.column(name), F.lit(_REPLACEMENT)) for name in opened.names]
    cut = [column.name for column in source.columns if opened.marks_cut(numbered, column.name)]
    with checked_quotes(opened) as quote_warnings:
        totals = row_of(
            numbered.agg(
                F.count(F.lit(1)).alias("rows"),
                F.count_if(opened.is_empty_record).alias("empty"),
                F.count_if(any_of(replaced if opened.reader.is_decoded else [])).alias("replaced"),
                F.count_if(any_of(_has_c1_controls(opened, source))).alias("controls"),
                F.count_if(any_of(_begins_with_mark(opened))).alias("marks"),
                *(F.count_if(fault_class.condition).alias(f"fault_{i}") for i, fault_class in enumerate(fault_classes)),
                *(count.alias(f"ambiguous_{i}") for i, count in enumerate(ambiguous)),
                *(F.count_if(opened.cut(name)).alias(f"cut_{i}") for i, name in enumerate(cut)),
            ).first()
        )
    if totals["replaced"]:
        _check_encoding(opened, numbered, any_of(replaced), totals["replaced"])
    counts = {column: totals[f"ambiguous_{i}"] for i, column in enumerate(local)}
    warnings = tuple(
        f"{counted(count, 'value')} of {column.name} are ambiguous local times in {zone} (the clocks go back); "
        "the earlier instant was used."
        for column, count in counts.items()
        if count
    )
    warnings += tuple(quote_warnings)
    if totals["controls"]:
        warnings += (c1_warning(counted(totals["controls"], "row")),)
    if totals["marks"]:
        warnings += (joined_files_warning(counted(totals["marks"], "row")),)
    warnings += tuple(
        f"{counted(totals[f'cut_{i}'], 'value')} of {name} have digits below microseconds, which were cut."
        for i, name in enumerate(cut)
        if totals[f"cut_{i}"]
    )
    faults = ((fault_class, totals[f"fault_{i}"]) for i, fault_class in enumerate(fault_classes))
    counted_faults = tuple((fault_class, count) for fault_class, count in faults if count)
    return CheckResult(totals["rows"] - totals["empty"], warnings, counted_faults, totals["empty"])


def _has_c1_controls(opened: Opened, source: SourceSpec) -> list[Column]:
    """Return the conditions that the texts of a text format have a control character from U+0080 to U+009F."""
    if not opened.is_text:
        return []
    texts = [opened.column(name) for name in ([c.name for c in source.columns] or opened.names)]
    # Few texts are longer in bytes than in characters, and only these can have such a character.
    return [(F.octet_length(text) > F.char_length(text)) & F.rlike(text, F.lit("[\\x{80}-\\x{9f}]")) for text in texts]


def _begins_with_mark(opened: Opened) -> list[Column]:
    """Return the conditions that a row of lines begins with a byte order mark; that of a file is no value."""
    if opened.format not in (CSV, FIXED):
        return []
    first = sorted({group.names[0] for group in opened.groups if group.names})
    return [F.startswith(opened.column(name), F.lit(BYTE_ORDER_MARK)) for name in first if name in opened.names]


def refuse_faults(opened: Opened, numbered: DataFrame, source: SourceSpec) -> CheckResult:
    """Return the result of the row checks. Raise Refusal for a row with faults."""
    checked = check_rows(opened, numbered, source)
    refusal = checked.refusal(opened, numbered)
    if refusal is not None:
        raise refusal
    return checked


def classes_of_faults(opened: Opened, source: SourceSpec) -> list[FaultClass]:
    """Return the classes of faults that rows of this source can have, those that could cause others first."""
    is_record = F.col(MALFORMED).isNull() & ~opened.is_empty_record
    of_values = [*_repeated_headers(opened), *_undecoded_texts(opened, source)]
    of_values += [_type_fault(opened, column, source.options) for column in source.columns]
    of_values += _missing_values(opened, source)
    return [
        *_malformed_records(opened),
        *(replace(fault_class, condition=is_record & fault_class.condition) for fault_class in of_values),
    ]


def _malformed_records(opened: Opened) -> list[FaultClass]:
    """Return the classes of malformed records, of which each such record has exactly one."""
    text = F.col(MALFORMED)
    first, *others = opened.reader.malformed
    is_free, conditions = text.isNotNull(), []
    for other in others:
        condition = is_free & F.coalesce(other.condition(text), F.lit(False))
        is_free = is_free & ~condition
        conditions.append(condition)
    fault_classes = []
    for record, condition in zip((first, *others), (is_free, *conditions), strict=True):
        describe = partial(record.describe, opened) if record.describe is not None else None
        fault_classes.append(
            FaultClass(record.code, condition, text, record.problem, record.summary, record.hint, describe=describe)
        )
    return fault_classes


def _repeated_headers(opened: Opened) -> list[FaultClass]:
    """Return the class of records that repeat the header of CSV."""
    headers = {(group.names, group.header) for group in opened.groups if may_be_repeated(group.header)}
    if not headers or opened.options.repeated_headers != REFUSE:
        return []
    repeats = any_of(_has_texts(opened, names, header) for names, header in sorted(headers))
    summary = "that repeat the header"
    text = F.concat_ws(opened.options.delimiter, *(opened.column(name) for name in opened.names[:_NAMES_COMPARED]))
    return [FaultClass(REPEATED_HEADER, repeats, text, "the record repeats the header", summary, JOINED_HINT)]


def _has_texts(opened: Opened, names: Sequence[str], header: Sequence[str]) -> Column:
    """Return the condition that a record has the texts of a header; a field without text is NULL or empty."""
    conditions = []
    for name, text in list(zip(names, header, strict=True))[:_NAMES_COMPARED]:
        value = F.trim(F.ltrim(opened.column(name), F.lit(BYTE_ORDER_MARK)), F.lit(BLANKS))
        expected = opened.key_text(name, F.lit(text))
        conditions.append(F.coalesce(value, F.lit("")) == F.coalesce(expected, F.lit("")))
    return all_of(conditions)


def _undecoded_texts(opened: Opened, source: SourceSpec) -> Iterator[FaultClass]:
    """Yield the classes of texts that are not UTF-8 in typed files, whose bytes Spark takes for text as they are.

    Without a contract every column that is read is checked.
    """
    if not opened.reader.may_have_undecoded_text:
        return
    for name in [column.name for column in source.columns] or [n for n in opened.names if n not in opened.unread]:
        value = opened.column(name)
        condition = has_undecoded_text(value, opened.type_of(name))
        if condition is not None:
            yield FaultClass(
                "WRONG_ENCODING",
                condition,
                F.make_valid_utf8(value.cast("string")),
                f"a text of {name} is not UTF-8",
                f"in {name} that are not UTF-8",
                "Have it written as UTF-8, as the format requires, or as bytes, in a column of the type binary.",
                column=name,
                noun="value",
            )


def _type_fault(opened: Opened, column: DeliveredColumn, options: dict) -> FaultClass:
    misfit = ~fits(opened.column(column.name), column.type, options, opened.type_of(column.name))
    return FaultClass(
        VALUE_DOES_NOT_FIT,
        opened.unfit(column.name) | misfit,
        opened.text_of(column.name),
        f"a value of {column.name} does not fit {column.type}",
        f"in {column.name} ({column.type})",
        (opened.misfit_hint(column.name) or "Correct the delivery, or change the column's type.")
        + _skipped_time_hint(column, opened.options.timezone),
        column=column.name,
        noun="value",
    )


def _skipped_time_hint(column: DeliveredColumn, zone: str) -> str:
    if column.type != data_types.TIMESTAMP or zone == "UTC":
        return ""
    return f" A local time that does not exist in {zone} (the clocks go forward) does not fit either."


def _missing_values(opened: Opened, source: SourceSpec) -> list[FaultClass]:
    """Return the classes of rows without a value in the key, in a required column, or in the watermark."""
    text, classes = _row_text(opened, source.columns), []
    keys = [column.name for column in source.columns if column.business_key]
    if keys:
        absent = any_of(opened.column(name).isNull() & ~opened.unfit(name) for name in keys)
        problem = f"no value in the business key ({', '.join(keys)})"
        hint = "Every row needs a value in every column of its business key."
        classes.append(FaultClass("NULL_KEY", absent, text, problem, "without a business key", hint, keys[0]))
    for column in source.columns:
        if column.nullable or column.business_key:
            continue
        absent = opened.lacks(column.name) & ~opened.unfit(column.name)
        problem = f"no value in {column.name}, which may not be NULL"
        hint = "Deliver a value, or let the contract allow NULL."
        summary = f"without a value in {column.name}"
        classes.append(FaultClass("NULL_VALUE", absent, text, problem, summary, hint, column.name))
    if watermark := source.intake.get("watermark", ()):
        absent = all_of(opened.column(name).isNull() & ~opened.unfit(name) for name in watermark)
        problem = f"no value in the watermark ({', '.join(watermark)})"
        hint = (
            "Without a value a load cannot know if the row is new. Fill the column in the source, leave the rows out "
            "with the option filter, or name a further watermark column that has a value."
        )
        classes.append(FaultClass(NULL_WATERMARK, absent, text, problem, "without a watermark", hint, watermark[0]))
    return classes


def _is_ambiguous_time(opened: Opened, name: str, options: dict) -> Column:
    """Return the condition that a timestamp without offset is a local time that exists twice, as clocks go back."""
    value, source = opened.column(name), opened.type_of(name)
    if isinstance(source, T.StringType):
        value = standard_text(value, data_types.TIMESTAMP, ValueFormats.of(options))
    return is_ambiguous_time(value, source, opened.options.timezone)


def _check_encoding(opened: Opened, numbered: DataFrame, replaced: Column, count: int) -> None:
    """Raise Refusal WRONG_ENCODING for replacement characters that the file itself does not contain.

    In UTF-8 the file's bytes are checked; other encodings cannot contain the character.
    """
    if not opened.options.is_utf8:
        text = F.concat_ws(",", *(opened.column(name) for name in opened.names))
        (places,) = first_places(opened, numbered, [(replaced, text)])
        raise Refusal(
            "WRONG_ENCODING",
            f"{places[0].file}, {places[0].name}: cannot be decoded as {opened.options.encoding}; "
            f"{counted(count, 'row')} in all",
            file=places[0].file,
            row=places[0].number,
            count=count,
            samples=tuple(place.sample for place in places),
            hint=encoding_hint(opened.options.encoding),
        )
    invalid = ~F.is_valid_utf8("value")
    lines = text_lines(opened.spark, opened.files).where(invalid).count()
    if lines:
        raise wrong_encoding("UTF-8", lines, *first_lines(opened.spark, opened.files, invalid))


def _row_text(opened: Opened, columns: tuple[DeliveredColumn, ...]) -> Column:
    """Return a row as ``name=value`` of its columns, key first; samples truncate it."""
    ordered = sorted(columns, key=lambda column: not column.business_key)
    values = [
        F.concat(F.lit(f"{c.name}="), F.coalesce(opened.column(c.name).cast("string"), F.lit("NULL"))) for c in ordered
    ]
    return F.concat_ws(", ", *values)
