"""Files that have their own types, read by a data source of Spark."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.refusals import Refusal
from loader.engine.java_errors import JAVA_ERRORS, thrown_by
from loader.engine.pyspark_types import jvm_of
from loader.engine.sources.delivered_columns import attribute, attribute_at, only_parents, paths_within
from loader.engine.sources.files import DeliveredFile, hadoop_configuration, unreadable
from loader.engine.sources.opened import Delivered, FileFormat, Group, Layout, Opened, Rows
from loader.readers.records.headers import check_typed_names, repeated_fields

# Spark's errors for names that differ in case only: as it reads a schema, and as it reads rows.
_REPEATED = ("COLUMN_ALREADY_EXISTS", "Found duplicate field(s)")
# Type of a column that cannot be read: it has no name in metadata, as any other type that no table has.
NO_TABLE_HAS = T.CalendarIntervalType()
_OF_HIVE = "_col"
# Option of ORC's reader, and the library whose files it concerns unless they name their calendar.
_GREGORIAN, _JAVA = "orc.proleptic.gregorian.default", "ORC_JAVA"
_FOOTERS_AT_ONCE = 16


def united_names(names: Iterable[str], spellings: dict[str, str]) -> tuple[str, ...]:
    """Return names of a file as they are in the first file that has them: files may differ in case, as in Spark.

    ``spellings`` has these by their lower case, and gets those of this file.
    """
    return tuple(spellings.setdefault(name.lower(), name) for name in names)


class TypedFormat(FileFormat):
    """Format of a data source of Spark that unites the columns of several files (``mergeSchema``)."""

    is_text = False
    may_have_undecoded_text = True

    def __init__(self, source: str, options: dict[str, str] | None = None):
        self._source, self._options = source, options or {}

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        types = {field.name: field.dataType for field in self._schema(delivered, delivered.files)}
        return self._layout(types, [(tuple(types), delivered.files)], contract)

    def rows(self, opened: Opened, group: Group) -> Rows:
        frame = self._read(opened, group.patterns)
        return Rows(frame, _values_of(group), order=F.col("_metadata.row_index") + 1 if self.has_row_numbers else None)

    def _layout(
        self,
        types: dict[str, T.DataType],
        files: Iterable[tuple[tuple[str, ...], Iterable[DeliveredFile]]],
        contract: tuple[str, ...],
        problems: Mapping[str, tuple[DeliveredFile, str]] = MappingProxyType({}),
    ) -> Layout:
        """Return the layout of files by their columns, with the paths into structs that the contract has.

        Without a contract all columns are wanted. ``problems`` are the columns that cannot be read. Raise Refusal
        UNREADABLE_COLUMN if one of them is wanted.
        """
        wanted = {*contract, *(name.partition(".")[0] for name in contract if name not in types)} or set(types)
        for name, (file, problem) in problems.items():
            if name in wanted:
                raise _unreadable_column(name, file, problem)
        types_of_paths = {path: _type_at(types, path) for path in paths_within(types, contract)}
        paths = {path: kind for path, kind in types_of_paths.items() if kind is not None}
        named = {name: kind for name, kind in types.items() if name not in only_parents(paths, contract)} | paths
        groups = tuple(
            Group(tuple(listed), names, paths=tuple(path for path in paths if path.partition(".")[0] in names))
            for names, listed in files
        )
        unread = tuple(name for name in named if name not in wanted and name not in paths)
        return Layout(tuple(named), tuple(named.values()), groups, unread=unread)

    def _schema(self, delivered: Delivered, files: tuple[DeliveredFile, ...]) -> T.StructType:
        try:
            return self._read(delivered, [file.pattern for file in files]).schema
        except JAVA_ERRORS as error:
            self._check_names(delivered, files, error)
            raise unreadable(files[0].shown, error) from error

    def read_failure(self, opened: Opened, error: Exception) -> Refusal:
        try:
            self._check_names(opened, opened.files, error)
        except Refusal as refusal:
            return refusal
        return super().read_failure(opened, error)

    def _check_names(self, delivered: Delivered, files: tuple[DeliveredFile, ...], error: Exception) -> None:
        """Raise Refusal DUPLICATE_COLUMN for the first file with a repeated name, if Spark's error is about one."""
        for file in files if _is_repetition(error) else ():
            check_typed_names(file.shown, self._own_schema(delivered, file).names)

    def _own_schema(self, delivered: Delivered, file: DeliveredFile) -> T.StructType:
        """Return the schema of one file, also if names in it differ in case only."""
        session = SparkSession(delivered.spark.sparkContext, delivered.spark._jsparkSession.cloneSession())
        session.conf.set("spark.sql.caseSensitive", "true")
        try:
            return session.read.format(self._source).options(**self._options).load(file.pattern).schema
        except JAVA_ERRORS as error:
            raise unreadable(file.shown, error) from error

    def _read(self, delivered: Delivered, paths: list[str]) -> DataFrame:
        merge = str(len(delivered.files) > 1).lower()
        options = self._options | {"mergeSchema": merge}
        return delivered.spark.read.format(self._source).options(**options).load(paths)


class OrcFormat(TypedFormat):
    """ORC, of which Spark reads files by position whose names all begin as those of old Hive (``_col0``).

    Such files are read together with files of the same columns in the same order only.

    Spark takes dates before 1582 of files that do not name their calendar for Julian ones, as old Hive wrote them.
    Other libraries than ORC's of Java name none, too, but write Gregorian dates.
    """

    def __init__(self) -> None:
        super().__init__("orc")

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        try:
            types = {field.name: field.dataType for field in self._schema(delivered, delivered.files)}
        except Refusal as refusal:
            if not _is_repetition(refusal.__cause__):
                raise
            return self._without_repeated_fields(delivered, contract)
        calendars = _calendars(delivered, types.values())
        by_position = any(name.startswith(_OF_HIVE) for name in types)
        if len(delivered.files) == 1 or not by_position and len(set(calendars.values())) == 1:
            groups = [(tuple(types), delivered.files)]
        else:
            groups = self._groups(delivered, types, calendars, by_position=by_position)
        return _with_calendars(self._layout(types, groups, contract), calendars)

    def _groups(
        self, delivered: Delivered, types: Iterable[str], calendars: Mapping[str, bool], *, by_position: bool
    ) -> list[tuple[tuple[str, ...], tuple[DeliveredFile, ...]]]:
        """Return the columns of files that are read together, of one calendar each, and these files."""
        spellings = {name.lower(): name for name in types}
        parts: dict[Any, list[DeliveredFile]] = {}
        for file in delivered.files:
            names = self._schema(delivered, (file,)).names if by_position else ()
            parts.setdefault((calendars[file.path], *names), []).append(file)
        schemas = ((self._schema(delivered, tuple(files)).names, tuple(files)) for files in parts.values())
        return [(united_names(names, spellings), files) for names, files in schemas]

    def rows(self, opened: Opened, group: Group) -> Rows:
        options = self._options | ({_GREGORIAN: "true"} if group.is_gregorian else {})
        if not group.by_types:
            return TypedFormat(self._source, options).rows(opened, group)
        schema = T.StructType(list(map(T.StructField, group.names, group.types)))
        frame = opened.spark.read.schema(schema).format(self._source).options(**options).load(group.patterns)
        return Rows(frame, _values_of(group))

    def _without_repeated_fields(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        """Return the layout of files with columns that repeat a field, of which the others are read."""
        types: dict[str, tuple[T.DataType, DeliveredFile]] = {}
        problems: dict[str, tuple[DeliveredFile, str]] = {}
        groups: dict[tuple[tuple[str, ...], bool], list[DeliveredFile]] = {}
        spellings: dict[str, str] = {}
        calendars = _calendars(delivered)
        for file in delivered.files:
            schema = self._own_schema(delivered, file)
            names = united_names(schema.names, spellings)
            for name, kind in zip(names, (part.dataType for part in schema), strict=True):
                if problem := _repeated_within(kind):
                    problems.setdefault(name, (file, problem))
                    if all(own.startswith(_OF_HIVE) for own in names):  # read by position, so none can be left out
                        raise _unreadable_column(name, file, problem)
                known, first = types.setdefault(name, (kind, file))
                if name in problems:
                    types[name] = (NO_TABLE_HAS, file)
                elif known != kind:
                    raise types_differ(name, kind, file, known, first)
            groups.setdefault((names, calendars[file.path]), []).append(file)
        kinds = {name: kind for name, (kind, _) in types.items()}
        readable = [
            (tuple(name for name in names if name not in problems), files) for (names, _), files in groups.items()
        ]
        layout = _with_calendars(self._layout(kinds, readable, contract, problems), calendars)
        read = (
            replace(group, by_types=True, types=tuple(kinds[name] for name in group.names)) for group in layout.groups
        )
        return replace(layout, groups=tuple(read))


def _with_calendars(layout: Layout, calendars: Mapping[str, bool]) -> Layout:
    groups = (replace(group, is_gregorian=calendars[group.files[0].path]) for group in layout.groups)
    return replace(layout, groups=tuple(groups))


def _calendars(delivered: Delivered, types: Iterable[T.DataType] = ()) -> dict[str, bool]:
    """Return for the path of each file of ORC if it is of a library that writes Gregorian dates without naming them so.

    Files without dates and timestamps among their ``types`` are not read for it.
    """
    shown = [kind.simpleString() for kind in types]
    if shown and not any(word in text for text in shown for word in ("date", "timestamp")):
        return dict.fromkeys((file.path for file in delivered.files), False)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        gregorian = pool.map(lambda file: _is_of_other_library(delivered.spark, file), delivered.files)
        return dict(zip((file.path for file in delivered.files), gregorian, strict=True))


def _is_of_other_library(spark: SparkSession, file: DeliveredFile) -> bool:
    """Return True for a file that ORC's library of Java did not write. Raise Refusal UNREADABLE_FILE."""
    jvm = jvm_of(spark)
    try:
        options = jvm.org.apache.orc.OrcFile.readerOptions(hadoop_configuration(spark))
        reader = jvm.org.apache.orc.OrcFile.createReader(jvm.org.apache.hadoop.fs.Path(file.path), options)
        try:
            return reader.getWriterVersion().getWriterImplementation().toString() != _JAVA
        finally:
            reader.close()
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error


def _is_repetition(error: BaseException | None) -> bool:
    """Return True for an error of Spark about names that differ in case only."""
    if error is None:
        return False
    texts = [str(error), *(thrown.message for thrown in thrown_by(error))]
    return any(words in text for text in texts for words in _REPEATED)


def _values_of(group: Group) -> dict[str, Column]:
    """Return the columns of a group, and its paths into structs, as expressions."""
    return {name: attribute(name) for name in group.names} | {path: attribute_at(path) for path in group.paths}


def _repeated_within(kind: T.DataType) -> str:
    """Return why Spark cannot read a type with fields that differ in case only; empty if it can."""
    match kind:
        case T.StructType():
            inner = [part.dataType for part in kind]
            return repeated_fields(kind.names) or next(filter(None, map(_repeated_within, inner)), "")
        case T.ArrayType():
            return _repeated_within(kind.elementType)
        case T.MapType():
            return _repeated_within(kind.keyType) or _repeated_within(kind.valueType)
    return ""


def _type_at(types: dict[str, T.DataType], path: str) -> T.DataType | None:
    """Return the type at a path into structs, None if there is no such field. Raise Refusal NO_SUCH_PATH."""
    first, *inner = path.split(".")
    kind = types[first]
    for name in inner:
        if not isinstance(kind, T.StructType):
            raise Refusal(
                "NO_SUCH_PATH",
                f"{path} leads into {kind.simpleString()}, not into a struct",
                column=path,
                hint="A column with a path reads structs. Take the list or the value as a column of its own.",
            )
        if name not in kind.names:
            return None
        kind = kind[name].dataType
    return kind


def _unreadable_column(name: str, file: DeliveredFile, problem: str) -> Refusal:
    return Refusal(
        "UNREADABLE_COLUMN",
        f"{file.shown}: the column {name} cannot be read: it is {problem}",
        file=file.shown,
        column=name,
        hint="Take the column out of the contract, or deliver it in another type.",
    )


def types_differ(name: str, kind: T.DataType, file: DeliveredFile, known: T.DataType, first: DeliveredFile) -> Refusal:
    """Return the refusal of a column whose types differ between two files."""
    return Refusal(
        "TYPES_DIFFER",
        f"{file.shown}: the column {name} is {kind.simpleString()}, and {known.simpleString()} in {first.shown}",
        file=file.shown,
        column=name,
        hint="A delivery has one type per column: load files of different types one by one.",
    )
