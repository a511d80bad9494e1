"""Avro, read by Spark's data source; ``avro_values`` converts values of logical types that it does not know."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import jvm_of
from loader.engine.sources.delivered_columns import attribute, attribute_at
from loader.engine.sources.files import DeliveredFile, content_of, unreadable
from loader.engine.sources.formats.avro_values import convert, is_cut
from loader.engine.sources.formats.typed_files import NO_TABLE_HAS, TypedFormat, types_differ, united_names
from loader.engine.sources.opened import Delivered, Group, Layout, Opened, Rows
from loader.readers.records.avro_schemas import AvroSchema

# Beginning of the names of columns that mark cut values.
_MARK = "\ue000cut "


class AvroFormat(TypedFormat):
    """Avro. Spark's data source applies the schema of one file to all, so the schema of each file is read first."""

    def __init__(self) -> None:
        super().__init__("avro")

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        files: dict[str, list[DeliveredFile]] = {}
        for file in delivered.files:
            files.setdefault(_schema_text(delivered, file), []).append(file)
        types: dict[str, tuple[T.DataType, DeliveredFile]] = {}
        problems: dict[str, tuple[DeliveredFile, str]] = {}
        names: list[tuple[str, ...]] = []
        spellings: dict[str, str] = {}
        for text, (file, *_) in files.items():
            schema = AvroSchema.of(text, file.shown)
            try:
                frame = self._frame(delivered, schema, [file.pattern])
            except JAVA_ERRORS as error:
                raise unreadable(file.shown, error) from error
            names.append(united_names((part["name"] for part in schema.fields), spellings))
            # The frame has marks, too.
            for part, read, name in zip(schema.fields, frame.schema, names[-1], strict=False):
                kind = read.dataType
                if problem := schema.problem(part["type"]):
                    kind, problems[name] = NO_TABLE_HAS, (file, problem)
                elif schema.is_time(part["type"]):
                    kind = T.TimeType()
                known, first = types.setdefault(name, (kind, file))
                if known != kind:
                    raise types_differ(name, kind, file, known, first)
        layouts = list(zip(names, files.values(), strict=True))
        return self._layout({name: kind for name, (kind, _) in types.items()}, layouts, contract, problems)

    def rows(self, opened: Opened, group: Group) -> Rows:
        schema = AvroSchema.of(_schema_text(opened, group.files[0]), group.files[0].shown)
        frame = self._frame(opened, schema, group.patterns)
        own = {name: part["name"] for name, part in zip(group.names, schema.fields, strict=True)}
        values = {name: attribute(own[name]) for name in group.names}
        values |= {path: attribute_at(path) for path in group.paths}
        marks = {name: _MARK + own[name if name in own else name.partition(".")[0]] for name in values}
        return Rows(frame, values, cut={name: attribute(mark) for name, mark in marks.items() if mark in frame.columns})

    def _frame(self, delivered: Delivered, schema: AvroSchema, paths: list[str]) -> DataFrame:
        reader = delivered.spark.read.format("avro").option("recursiveFieldMaxDepth", "1")
        stripped = schema.for_spark
        frame = (reader if stripped is None else reader.option("avroSchema", stripped)).load(paths)
        columns, marks = [], []
        for part in schema.fields:
            if part["name"] not in frame.columns:  # a type inside of itself, of which Spark leaves nothing
                columns.append(F.lit(None).cast("string").alias(part["name"]))
                continue
            column = attribute(part["name"])
            converted, cut = convert(schema, part["type"], column), is_cut(schema, part["type"], column)
            columns.append(column if converted is None else converted.alias(part["name"]))
            if cut is not None:
                marks.append(F.coalesce(cut, F.lit(False)).alias(_MARK + part["name"]))
        return frame.select(*columns, *marks)


def _schema_text(delivered: Delivered, file: DeliveredFile) -> str:
    """Return the schema in a file's header as JSON. Raise Refusal UNREADABLE_FILE."""
    avro = jvm_of(delivered.spark).org.apache.avro
    try:
        with content_of(delivered.spark, file) as content:
            return avro.file.DataFileStream(content, avro.generic.GenericDatumReader()).getSchema().toString()
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error
