"""Opened delivery: its files, its columns, and the frame of its rows.

In every format the frame has the columns ``d0`` … in the order of ``names``, and ``malformed``: the text of a malformed
record, else NULL. Text formats give text, the others their own types. Of a format with records that have no value,
``empty`` marks these.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.refusals import Refusal
from loader.domain.sources.marks import Window
from loader.engine.expressions import all_of, united
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.sources.delivered_columns import folded_key, nulls_read, trimmed_key, type_name
from loader.engine.sources.file_paths import folder_value
from loader.engine.sources.files import (
    DeliveredFile,
    as_uri,
    check_places,
    check_unchanged,
    is_read_failure,
    list_files,
    unreadable,
)
from metadata.domain import types as data_types
from metadata.domain.sources.locations import Roots
from metadata.domain.sources.reading_options import ReadingOptions

FILE, BLOCK, ORDER, MALFORMED, EMPTY = "file", "block", "order", "malformed", "empty"
_CUT = "cut"
_SAMPLE_LENGTH = 80  # characters
# Length to which the text of a place is cut.
LONGEST_TEXT = 4_000  # characters


@dataclass(frozen=True)
class Place:
    """Place of one faulty row: ``word`` is the unit of ``number``, counted from 1; ``text`` is the faulty value.

    A row of a table has no number: its ``key`` is a value, so it is part of the sample only. A message has its offset.
    """

    file: str
    word: str
    number: int | None
    text: str
    key: str = ""

    @property
    def name(self) -> str:
        return f"{self.word} {self.number}"

    @property
    def where(self) -> str:
        return self.file if self.number is None else f"{self.file}, {self.name}"

    @property
    def sample(self) -> str:
        named, text = self.key if self.number is None else self.name, self.text[:_SAMPLE_LENGTH]
        return f"{named}: {text}" if named else text


@dataclass(frozen=True)
class Group:
    """Files with the same layout; ``names`` are the delivery's names of their fields, in order.

    ``paths`` are further columns: values inside objects, like ``a.b``. ``has_malformed_lines``: a line of JSON lines is
    malformed. ``by_tasks``: tasks in Python read the files of a typed format; ``by_types``: Spark reads them without
    the columns that it cannot read. ``types`` are those of the fields then, and ``cut`` the fields in which tasks may
    cut digits below microseconds. ``is_gregorian``: dates of ORC files that do not name their calendar are Gregorian.
    ``header`` are the texts of the last record of a header of CSV; ``is_ended_by_delimiter``: each record has a further
    delimiter at its end.
    """

    files: tuple[DeliveredFile, ...]
    names: tuple[str, ...]
    separator: str | None = None
    paths: tuple[str, ...] = ()
    has_malformed_lines: bool = False
    by_tasks: bool = False
    by_types: bool = False
    is_gregorian: bool = False
    types: tuple[T.DataType, ...] = ()
    cut: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    is_ended_by_delimiter: bool = False

    @property
    def patterns(self) -> list[str]:
        return [file.pattern for file in self.files]


@dataclass(frozen=True)
class Delivered:
    """Files of a delivery and how they are read, before their columns are known."""

    spark: SparkSession
    name: str
    location: str
    roots: Roots
    format: str
    options: ReadingOptions
    files: tuple[DeliveredFile, ...]

    @property
    def shown(self) -> str:
        """Return the name of the delivery for messages: its first file, and the number of others."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return self.files[0].shown + more

    @property
    def first_shown(self) -> str:
        """Return the first file's name for messages."""
        return self.files[0].shown


@dataclass(frozen=True)
class Layout:
    """Columns of a delivery and the groups of its files.

    ``missing`` gives the files that lack a column, ``header_lines`` the lines before the first record by file path.
    ``unread`` are columns outside the contract of which no value is read: no fault of theirs stops a load. ``notes``
    are warnings about the files.
    """

    names: tuple[str, ...]
    types: tuple[T.DataType, ...]
    groups: tuple[Group, ...]
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    header_lines: dict[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of_text(cls, names: tuple[str, ...], files: tuple[DeliveredFile, ...], paths: tuple[str, ...] = ()) -> "Layout":
        """Return the layout of files whose columns all are text and stand in each of them."""
        return cls(
            (*names, *paths), tuple(T.StringType() for _ in (*names, *paths)), (Group(files, names, paths=paths),)
        )


@dataclass(frozen=True)
class Rows:
    """Rows of one group: a frame, the delivered values as expressions over it, and the places of its rows.

    ``order`` increases along a file. If None, Spark numbers the rows, and files must be read unsplit. ``block`` is the
    position at which the part of the file begins that has the row. ``cut`` are, by column, the conditions that digits
    below microseconds were cut.
    """

    frame: DataFrame
    values: dict[str, Column]
    malformed: Column | None = None
    file: Column | None = None
    order: Column | None = None
    block: Column | None = None
    cut: dict[str, Column] = field(default_factory=dict)


@dataclass(frozen=True)
class MalformedRecord:
    """Class of malformed records; ``condition`` selects them by their text.

    ``summary`` follows the count if the class is named among others. ``describe`` words the problem of the record at a
    place if ``problem`` can be said more exactly for it.
    """

    code: str
    problem: str
    hint: str
    summary: str = "without the form of a record"
    condition: Callable[[Column], Column] = lambda record: record.isNotNull()
    describe: Callable[["Opened", Place], str] | None = None


class FileFormat:
    """Reader of one format: the columns of a delivery's files, and their rows."""

    # Values come as text.
    is_text: ClassVar[bool] = True
    # A record is a line, so that errors can name it; with ``spans_lines`` a value may contain line ends.
    has_lines: ClassVar[bool] = False
    spans_lines: ClassVar[bool] = False
    # A line of only these characters is no record.
    blanks: ClassVar[str] = "\r"
    # Java replaces bytes that are invalid in the source's encoding, and the checks look for its replacement.
    is_decoded: ClassVar[bool] = False
    # Spark takes bytes of the files for text without decoding them.
    may_have_undecoded_text: ClassVar[bool] = False
    # A record without any value is left out and counted.
    skips_empty: ClassVar[bool] = False
    # Unit of the row numbers of a format with its own: ``record``, ``line`` or the spreadsheet's ``row``; else empty.
    numbers: str = ""
    # The order of a row is its number in its file, from 1; else rows are counted.
    has_row_numbers: ClassVar[bool] = False
    # Several tasks may read a file, each a block of it.
    is_split: ClassVar[bool] = True
    # Rows come from files, which may change meanwhile and give each row a place. Rows of tables are read in one
    # state, and errors name them by their business key.
    has_files: ClassVar[bool] = True
    # Classes of malformed records. The first one has all records that meet no condition of the others.
    malformed: ClassVar[tuple[MalformedRecord, ...]] = (
        MalformedRecord("UNREADABLE_FILE", "no record", "Deliver the file again."),
    )

    def files(self, spark: SparkSession, location: str, roots: Roots) -> tuple[DeliveredFile, ...]:
        """Return the files at a location. Raise Refusal."""
        return tuple(list_files(spark, location, roots))

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        """Return the columns of the files; ``contract`` has the names that a load wants. Raise Refusal."""
        raise NotImplementedError

    def rows(self, opened: "Opened", group: Group) -> Rows:
        """Return the rows of the files of one group."""
        raise NotImplementedError

    def read_failure(self, opened: "Opened", error: Exception) -> Refusal:
        """Return the refusal for an error of Spark for bytes that do not have the form of the format."""
        return unreadable(opened.shown, error)

    def table_name(self, opened: "Opened") -> Column:
        """Return the name of a table in the provenance of each of its rows."""
        return F.lit(opened.location)

    def own_types(self, opened: "Opened") -> dict[str, T.DataType]:
        """Return the types that the notation of a text format implies, by column."""
        return {}


@dataclass(frozen=True)
class Opened(Delivered):
    """Files and columns of an opened delivery, and the reader of its format. ``keys``: its business key.

    ``window`` is the part of a source with a watermark that is read, ``condition`` selects its rows. ``folders`` are
    the columns whose values are in the names of folders, ``unread`` those of which no value is read, and ``notes``
    warnings about the files.
    """

    reader: FileFormat
    keys: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[T.DataType, ...]
    groups: tuple[Group, ...]
    missing: dict[str, tuple[str, ...]]
    header_lines: dict[str, int]
    unread: tuple[str, ...] = field(default=(), kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    folders: tuple[str, ...] = field(default=(), kw_only=True)
    window: Window | None = field(default=None, kw_only=True)
    condition: Column | None = field(default=None, kw_only=True)

    @property
    def is_text(self) -> bool:
        return self.reader.is_text

    @property
    def is_read_again(self) -> bool:
        """Return True if the rows are not cached while they are checked, but read again for writing."""
        return not self.is_text

    @contextmanager
    def reading(self, *, again: bool) -> Iterator[None]:
        """Convert read errors into Refusal UNREADABLE_FILE, or CHANGED_FILE for files that are read ``again``.

        A format with its own row numbers has read its files before, for their columns, so they changed since.
        """
        try:
            yield
        except JAVA_ERRORS as error:
            if again or self.reader.numbers:
                self.check_unchanged()
            if is_read_failure(error):
                raise self.reader.read_failure(self, error) from error
            raise

    def check_unchanged(self) -> None:
        """Raise Refusal CHANGED_FILE if a file changed since it was listed."""
        if self.reader.has_files:
            check_unchanged(self.spark, self.location, self.roots, self.files)

    def check_places(self) -> None:
        """Raise Refusal OUTSIDE_ROOTS if a link now leads out of the source roots."""
        if self.reader.has_files:
            check_places(self.location, self.roots, self.files)

    def release(self) -> None:
        """Release the source; files need no release."""

    @property
    def key_is_unique(self) -> bool:
        """Return True if the source guarantees that no two rows have the same business key."""
        return False

    def column(self, name: str) -> Column:
        return F.col(f"d{self.names.index(name)}")

    @property
    def is_empty_record(self) -> Column:
        """Return the condition that a record has no value, and so is no row; never NULL itself."""
        return F.col(EMPTY) if self.reader.skips_empty else F.lit(False)

    def key_text(self, name: str, value: Column) -> Column:
        """Return a value, trimmed and in one case if it is text of the business key and the options say so."""
        if name not in self.keys or not isinstance(self.type_of(name), T.StringType):
            return value
        if self.options.trim_keys:
            value = trimmed_key(value, self.options)
            value = nulls_read(value, self.options) if self.is_text else value
        return folded_key(value, self.options)

    def with_key_texts(self, rows: DataFrame) -> DataFrame:
        """Return rows of a table with ``key_text`` of the business key's columns."""
        keys = [name for name in self.keys if name in self.names]
        return rows.withColumns({f"d{self.names.index(k)}": self.key_text(k, self.column(k)) for k in keys})

    def text_of(self, name: str) -> Column:
        """Return a column's values for messages."""
        return self.column(name)

    def unfit(self, name: str) -> Column:
        """Return the condition that a value cannot be read, and so is NULL in the frame; never NULL itself."""
        return F.lit(False)

    def misfit_hint(self, name: str) -> str:
        """Return what to do about values of a column that do not fit; empty for the usual hint."""
        return ""

    def lacks(self, name: str) -> Column:
        """Return the condition that a required value is missing."""
        return self.column(name).isNull()

    def type_of(self, name: str) -> T.DataType:
        return self.types[self.names.index(name)]

    @property
    def place_columns(self) -> list[Column]:
        """Return the columns that place a row of a source without files, in their order: its business key."""
        return [self.column(name).cast("string") for name in self.keys]

    def own_place(self, values: Sequence, text: str) -> Place:
        """Return the place of a faulty row with these values of ``place_columns``."""
        key = ", ".join(f"{name}={value}" for name, value in zip(self.keys, values, strict=True))
        return Place(self.shown, "", None, text, key)

    def declared_type(self, name: str) -> str | None:
        """Return the type that the delivery declares for a column; None for text, of which only the values tell."""
        try:
            return None if self.is_text else type_name(self.type_of(name))
        except data_types.TypeProblem:
            return None

    def own_provenance(self) -> tuple[Column, Column]:
        """Return the table or query of each row, and no number: the rows of a table have no order."""
        return self.reader.table_name(self), F.lit(None).cast("bigint")

    def unknown(self) -> list[dict] | None:
        """Return the columns outside the contract that the source describes; None if only their values tell."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the delivery as a whole."""
        return self.notes

    def frame(self, *, numbered: bool = False) -> DataFrame:
        """Return the rows; ``numbered`` adds ``file``, ``block`` and ``order``, which increases along a block.

        Persist the frame of a text format before selecting columns.
        """
        read = [self.reader.rows(self, group) for group in self.groups]
        cut = {name for rows in read for name in rows.cut}
        return united([self._frame(rows, numbered, [name for name in self.names if name in cut]) for rows in read])

    def cut(self, name: str) -> Column:
        """Return the column of a frame that marks rows in which digits of a column below microseconds were cut."""
        return F.col(f"{_CUT}{self.names.index(name)}")

    def marks_cut(self, frame: DataFrame, name: str) -> bool:
        """Return True if rows of a frame have the column ``cut`` of a name."""
        return f"{_CUT}{self.names.index(name)}" in frame.columns

    def _frame(self, rows: Rows, numbered: bool, cut: Sequence[str]) -> DataFrame:
        several = F.col("_metadata.file_path") if rows.file is None else rows.file
        file = F.lit(as_uri(self.files[0].path)) if len(self.files) == 1 else several
        values = rows.values | {name: folder_value(file, name, self.files) for name in self.folders}
        columns = [
            self.key_text(name, values[name] if name in values else _absent(kind)).alias(f"d{place}")
            for place, (name, kind) in enumerate(zip(self.names, self.types, strict=True))
        ]
        malformed = _absent(T.StringType()) if rows.malformed is None else rows.malformed
        places = []
        if numbered:
            order = F.monotonically_increasing_id() if rows.order is None else rows.order
            is_split = self.reader.is_split and not self.reader.has_row_numbers
            block = F.lit(0).cast("bigint")
            if is_split:
                block = F.col("_metadata.file_block_start") if rows.block is None else rows.block
            places = [file.alias(FILE), block.alias(BLOCK), order.alias(ORDER)]
        lost = [rows.cut.get(name, F.lit(False)).alias(f"{_CUT}{self.names.index(name)}") for name in cut]
        selected = rows.frame.select(*columns, malformed.alias(MALFORMED), *places, *lost)
        if self.reader.skips_empty:
            without = [F.col(f"d{place}").isNull() for place, name in enumerate(self.names) if name not in self.folders]
            selected = selected.withColumn(EMPTY, F.col(MALFORMED).isNull() & all_of(without))
        return selected if self.condition is None else selected.where(self.condition)


def _absent(kind: T.DataType) -> Column:
    """Return NULL for a column that files lack, in the type that its values have: text makes floats of decimals."""
    is_text = isinstance(kind, (T.TimeType, T.NullType, T.CalendarIntervalType))
    return F.lit(None).cast(T.StringType() if is_text else kind)
