"""Files that have their own types, read by a data source of Spark: Parquet, ORC, Avro."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.refusals import Refusal
from loader.spark.sources.files import JAVA_ERRORS, DeliveredFile, content_of, unreadable
from loader.spark.sources.opened import (
    Delivered,
    FileFormat,
    Group,
    Layout,
    Opened,
    Rows,
    attribute,
    attribute_at,
    only_parents,
    paths_within,
)


class TypedFormat(FileFormat):
    """Format of a data source of Spark that unites the columns of several files (``mergeSchema``)."""

    is_text = False

    def __init__(self, source: str):
        self._source = source

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        types = {field.name: field.dataType for field in self._schema(delivered, delivered.files)}
        return self._layout(types, {tuple(types): list(delivered.files)}, contract)

    def rows(self, opened: Opened, group: Group) -> Rows:
        frame = self._read(opened, group.patterns)
        values = {name: attribute(name) for name in group.names}
        values |= {path: attribute_at(path) for path in group.paths}
        return Rows(frame, values, order=F.col("_metadata.row_index") + 1 if self.has_row_numbers else None)

    def _layout(
        self,
        types: dict[str, T.DataType],
        files: dict[tuple[str, ...], list[DeliveredFile]],
        contract: tuple[str, ...],
    ) -> Layout:
        """Return the layout of files by their columns, with the paths into structs that the contract has."""
        types_of_paths = {path: _type_at(types, path) for path in paths_within(types, contract)}
        paths = {path: kind for path, kind in types_of_paths.items() if kind is not None}
        named = {name: kind for name, kind in types.items() if name not in only_parents(paths, contract)} | paths
        groups = tuple(
            Group(tuple(listed), names, paths=tuple(path for path in paths if path.partition(".")[0] in names))
            for names, listed in files.items()
        )
        return Layout(tuple(named), tuple(named.values()), groups)

    def _schema(self, delivered: Delivered, files: tuple[DeliveredFile, ...]) -> T.StructType:
        try:
            return self._read(delivered, [file.pattern for file in files]).schema
        except JAVA_ERRORS as error:
            raise unreadable(files[0].shown, error) from error

    def _read(self, delivered: Delivered, paths: list[str]) -> DataFrame:
        merge = str(len(delivered.files) > 1).lower()
        return delivered.spark.read.format(self._source).option("mergeSchema", merge).load(paths)


class ParquetFormat(TypedFormat):
    """Parquet, whose reader numbers the rows of a file."""

    has_row_numbers = True

    def __init__(self) -> None:
        super().__init__("parquet")


class AvroFormat(TypedFormat):
    """Avro. Spark's data source applies the schema of one file to all, so the schema of each file is read first."""

    def __init__(self) -> None:
        super().__init__("avro")

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        files: dict[str, list[DeliveredFile]] = {}
        for file in delivered.files:
            files.setdefault(_avro_schema(delivered, file), []).append(file)
        layouts: dict[tuple[str, ...], list[DeliveredFile]] = {}
        types: dict[str, tuple[T.DataType, DeliveredFile]] = {}
        for file, *others in files.values():
            schema = self._schema(delivered, (file,))
            layouts.setdefault(tuple(field.name for field in schema), []).extend((file, *others))
            for field in schema:
                known, first = types.setdefault(field.name, (field.dataType, file))
                if known != field.dataType:
                    raise _types_differ(field, file, known, first)
        return self._layout({name: kind for name, (kind, _) in types.items()}, layouts, contract)


def _avro_schema(delivered: Delivered, file: DeliveredFile) -> str:
    """Return the schema in a file's header as JSON. Raise Refusal UNREADABLE_FILE."""
    avro = delivered.spark._jvm.org.apache.avro
    try:
        with content_of(delivered.spark, file) as content:
            return avro.file.DataFileStream(content, avro.generic.GenericDatumReader()).getSchema().toString()
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error


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


def _types_differ(field: T.StructField, file: DeliveredFile, known: T.DataType, first: DeliveredFile) -> Refusal:
    return Refusal(
        "TYPES_DIFFER",
        f"{file.shown}: the column {field.name} is {field.dataType.simpleString()}, and {known.simpleString()} in "
        f"{first.shown}",
        file=file.shown,
        column=field.name,
        hint="A delivery has one type per column: load files of different types one by one.",
    )
