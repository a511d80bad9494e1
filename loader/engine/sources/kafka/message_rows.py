"""Rows of checked messages, with the values as text like those of JSON lines."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.manifest.sources import SourceSpec
from loader.domain.sources.kafka import OPERATIONS, TopicOptions
from loader.engine.sources.delivered_columns import nulls_read
from loader.engine.sources.formats.csv_files import RECORD
from loader.engine.sources.formats.json_lines import STRICT, object_schema, unique_ignoring_case
from loader.engine.sources.kafka.envelopes import READ, is_malformed_message, parsed_events, sequence_of
from loader.engine.sources.kafka.messages import Layout
from loader.engine.sources.kafka.snapshot_rows import READ_ROW
from loader.engine.sources.kafka.values import MOMENT_FORMAT, ReadValue, unwrapped
from loader.engine.sources.opened import MALFORMED
from metadata.domain.sources.clusters import KEY, OFFSET, PARTITION, TIMESTAMP
from metadata.domain.sources.formats import OP, SEQUENCE

DELETED = "deleted"


def rows_of(events: DataFrame, layout: Layout, source: SourceSpec, options: TopicOptions) -> DataFrame:
    """Return the values as text: one row of each message, except events of a truncated table.

    Column ``x0`` … has the text of a value of Debezium that cannot be read.
    """
    fields = unique_ignoring_case(layout.fields)
    row = object_schema(fields, layout.paths).add(RECORD, T.StringType())
    parsed = parsed_events(events, options)
    deleted = is_read = F.lit(False)
    if options.is_debezium:
        parsed = parsed.where(F.col("op").isin(*OPERATIONS)).withColumn("shape", F.md5(F.col("fields").cast("binary")))
        deleted, is_read = F.col("op") == "d", F.col("op") == READ
    parsed = parsed.withColumn("image", F.from_json("row", row, STRICT))
    malformed = F.col("image").getField(RECORD)
    if layout.has_malformed:  # from_json ignores text after the object and repeated keys
        malformed = F.when(is_malformed_message(F.col("value")), F.col("value")).otherwise(malformed)
    parsed = parsed.withColumn("exact", _exact_row(options))
    if layout.has_documents:
        parsed = parsed.withColumns(_row_of_document())
    about = _about_messages(options)
    values = {name: _exact((name,), F.col("image").getField(name)) for name in fields}
    values |= {path: _exact(tuple(path.split(".")), _inside(path)) for path in layout.paths}
    values = {name: nulls_read(value, options.reading) for name, value in values.items()}
    values |= {name: about[name].cast("string") for name in layout.about}
    absent = F.lit(None).cast("string")
    texts = {f"v{place}": values.get(name, absent) for place, name in enumerate(layout.names)}
    parsed = parsed.withColumns(texts | {MALFORMED: malformed})
    read = {}
    if options.is_debezium:
        if layout.has_documents:
            parsed = parsed.withColumns(_unwrapped(layout, source))
        read = {
            place: _read_value(name, F.col(f"v{place}"), layout, source, options)
            for place, name in enumerate(layout.names)
            if name not in layout.about
        }
        parsed = parsed.withColumns({f"t{place}": value.text for place, value in read.items()})
    notes = {place: value.note for place, value in read.items() if value.note is not None}
    return parsed.select(
        *(F.col(f"{'t' if place in read else 'v'}{place}").alias(f"d{place}") for place in range(len(layout.names))),
        *(_unread_text(place, note).alias(f"x{place}") for place, note in notes.items()),
        MALFORMED,
        "partition",
        "offset",
        deleted.alias(DELETED),
        is_read.alias(READ_ROW),
    )


def _type_of(name: str, layout: Layout, source: SourceSpec) -> str:
    """Return a column's type in the contract, or by the schemas of the messages."""
    return {column.name: column.type for column in source.columns}.get(name) or layout.shapes.type_of(name)


def _unwrapped(layout: Layout, source: SourceSpec) -> dict[str, Column]:
    """Return the values of documents of MongoDB without the names of their types."""
    values = {}
    for place, name in enumerate(layout.names):
        value, type_ = F.col(f"v{place}"), _type_of(name, layout, source)
        is_object = F.col("is_document") & ~_is_quoted(_steps(name, layout))
        values[f"v{place}"] = F.when(is_object, unwrapped(value, type_)).otherwise(value)
    return values


def _steps(name: str, layout: Layout) -> tuple[str, ...]:
    return tuple(name.split(".")) if name in layout.paths else (name,)


def _read_value(name: str, value: Column, layout: Layout, source: SourceSpec, options: TopicOptions) -> ReadValue:
    """Return a delivered value of Debezium as its contract reads it."""
    is_quoted = _is_quoted(_steps(name, layout))
    return layout.shapes.read(name, value, _type_of(name, layout, source), options, is_quoted)


def _unread_text(place: int, note: Column) -> Column:
    """Return the text of a value that could not be read, with what it is; NULL for other values."""
    value = F.col(f"v{place}")
    return F.when(value.isNotNull() & F.col(f"t{place}").isNull(), F.concat(value, F.lit(" ("), note, F.lit(")")))


def _exact_row(options: TopicOptions) -> Column:
    """Return the row as a variant, which keeps up to 38 digits of a number; ``from_json`` gives texts of doubles."""
    document = F.try_parse_json("value")
    if not options.is_debezium:
        return document
    before, after = (
        F.coalesce(*(F.try_variant_get(document, f"{place}.{name}", "variant") for place in ("$.payload", "$")))
        for name in ("before", "after")
    )
    return F.when(F.col("op") == "d", before).otherwise(after)


def _row_of_document() -> dict[str, Column]:
    """Return the row of an event of MongoDB, which is the JSON text of a document, as a variant."""
    is_document = F.coalesce(F.schema_of_variant("exact") == "STRING", F.lit(False))
    exact = F.when(is_document, F.try_parse_json("row")).otherwise(F.col("exact"))
    return {"is_document": is_document, "exact": exact}


def _path_in_variant(names: tuple[str, ...]) -> str | None:
    """Return the path of a value in a variant; None if it cannot be asked for."""
    steps = []
    for name in names:
        quote = next((sign for sign in "'\"" if sign not in name), "")
        if not quote or "?" in name:
            return None
        steps.append(f"[{quote}{name}{quote}]")
    return "$" + "".join(steps)


def _exact(names: tuple[str, ...], text: Column) -> Column:
    """Return the text of a value from the variant, or ``text`` if the variant has none or cannot be asked for it."""
    path = _path_in_variant(names)
    return text if path is None else F.coalesce(F.try_variant_get(F.col("exact"), path, "string"), text)


def _is_quoted(names: tuple[str, ...]) -> Column:
    """Return the condition that JSON has a value as text, which is true for a value of which this is not known."""
    path = _path_in_variant(names)
    if path is None:
        return F.lit(True)
    type_ = F.schema_of_variant(F.try_variant_get(F.col("exact"), path, "variant"))
    return F.coalesce(type_ == "STRING", F.lit(True))


def _inside(path: str) -> Column:
    value = F.col("image")
    for name in path.split("."):
        value = value.getField(name)
    return value


def _about_messages(options: TopicOptions) -> dict[str, Column]:
    """Return the columns about the messages themselves."""
    columns = {
        KEY: F.col("key").cast("string"),
        PARTITION: F.col("partition"),
        OFFSET: F.col("offset"),
        TIMESTAMP: F.date_format("timestamp", MOMENT_FORMAT),
    }
    if options.is_debezium:
        names = F.create_map(*(F.lit(text) for pair in OPERATIONS.items() for text in pair))
        columns |= {OP: names[F.col("op")], SEQUENCE: sequence_of(options)}
    return columns
