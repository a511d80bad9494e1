"""Messages of Kafka as rows: JSON objects, or change events of Debezium, with or without their schema.

One pass finds the columns and checks each event of Debezium by itself (``checked_layout``): a stream of changes that
lacks one event is wrong, so a faulty one refuses the delivery. ``rows_of`` then gives the rows, with the values as text
like JSON lines; a malformed message without an envelope is a malformed record among them.
"""

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.words import counted
from loader.domain.manifest.sources import SourceSpec
from loader.domain.refusals import Refusal
from loader.domain.sources.kafka import OFFSETS_PER_MILLISECOND, OPERATIONS, TRUNCATE, TopicOptions
from loader.spark.nested_values import is_undecoded
from loader.spark.sources.formats.csv_files import RECORD
from loader.spark.sources.formats.json_lines import (
    LONE_SURROGATE,
    NO_OBJECT,
    REPEATED_KEY,
    STRICT,
    SURROGATE_HINT,
    has_lone_surrogate,
    is_one_object,
    object_schema,
    path_conflict,
    repeats_a_key,
    unique_ignoring_case,
)
from loader.spark.sources.kafka.snapshot_rows import READ_ROW, Numbers
from loader.spark.sources.kafka.values import MOMENT_FORMAT, ReadValue, Shapes, is_unavailable, unwrapped
from loader.spark.sources.opened import MALFORMED, MalformedRecord, Place, nulls_read, only_parents, paths_within
from metadata.domain.sources.clusters import KEY, MESSAGE_COLUMNS, OFFSET, PARTITION, TIMESTAMP
from metadata.domain.sources.formats import OP, SEQUENCE
from metadata.domain.sources.option_kinds import LSN, TIME
from metadata.domain.sql import quote_identifier

DELETED = "deleted"
READ = "r"  # a row of a snapshot
SAMPLES = 5
HINT = "Correct the producer, or name another envelope."
UNREAD_HINT = (
    "Let the connector send the schema with each message, or say what numbers mean (options time_unit and "
    "binary_values). docs/use/debezium.md has the types that are read."
)
MALFORMED_MESSAGES = (
    MalformedRecord("BAD_JSON", NO_OBJECT, HINT),
    MalformedRecord("WRONG_ENCODING", "cannot be decoded as UTF-8", HINT, "not in UTF-8", is_undecoded),
    MalformedRecord("DUPLICATE_FIELD", REPEATED_KEY, HINT, "with a repeated key", repeats_a_key),
    MalformedRecord("BAD_JSON", LONE_SURROGATE, SURROGATE_HINT, "with half of a surrogate pair", has_lone_surrogate),
)
_SAMPLE_LENGTH = 80  # characters
# Fields of an event before its row is parsed.
_EVENT = object_schema(("before", "after", "op"), ("source.lsn", "source.ts_ms"))
# Fields of the schema beside an event: those of the row before and after the change, as text.
# A row that is the JSON text of a document, not an object. Within texts, quotes would follow a backslash.
_DOCUMENT = r'"(after|before)"\s*:\s*"\{'
_SHAPE = T.ArrayType(T.StructType([T.StructField(name, T.StringType()) for name in ("field", "fields")]))
_ENVELOPE = T.StructType([T.StructField("schema", T.StructType([T.StructField("fields", _SHAPE)]))])


@dataclass(frozen=True)
class Layout:
    """Columns of the messages: their fields, paths into these, and columns about the messages themselves.

    ``has_malformed``: a message without an envelope is malformed. ``shapes`` are the schemas of events, ``numbers``
    the extremes of their order; ``has_documents``: the rows of some are documents of MongoDB.
    """

    fields: tuple[str, ...]
    paths: tuple[str, ...]
    about: tuple[str, ...]
    notes: tuple[str, ...]
    has_malformed: bool = False
    shapes: Shapes = Shapes({})
    numbers: Numbers = Numbers()
    has_documents: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.fields, *self.paths, *self.about)


# A message that is no object has no event; the checks refuse it.
_EVENT_OPTIONS = {name: value for name, value in STRICT.items() if name != "columnNameOfCorruptRecord"}


def parsed_events(events: DataFrame, options: TopicOptions) -> DataFrame:
    """Return the messages with the columns of ``_EVENT``, and the JSON text of the ``row`` and of its ``fields``."""
    if not options.is_debezium:
        return events.withColumn("row", F.col("value"))
    schema = T.StructType([*_ENVELOPE.fields, T.StructField("payload", _EVENT), *_EVENT.fields])
    parsed = events.withColumn("event", F.from_json("value", schema, _EVENT_OPTIONS))
    event = {name: _of_payload(F.col("event"), name) for name in _EVENT.names}
    fields = F.coalesce(_fields_of("after"), _fields_of("before"))
    parsed = parsed.withColumns(event | {"fields": fields}).drop("event")
    return parsed.withColumn("row", F.when(F.col("op") == "d", F.col("before")).otherwise(F.col("after")))


def _fields_of(row: str) -> Column:
    """Return the fields of the row before or after the change in the schema beside an event."""
    described = F.filter(F.col("event.schema.fields"), lambda entry: entry["field"] == row)
    return F.get(described, F.lit(0))["fields"]


def _of_payload(event: Column, name: str) -> Column:
    """Return a field of an event, which is the payload of a message with a schema."""
    payload = event.getField("payload")
    return F.when(payload.isNotNull(), payload.getField(name)).otherwise(event.getField(name))


def checked_layout(messages: DataFrame, source: SourceSpec, options: TopicOptions) -> Layout:
    """Return the columns after a check of each event of Debezium by itself, in one pass.

    Malformed messages without an envelope give no columns.
    """
    parsed = parsed_events(messages, options).withColumns(
        {"is_object": _is_object(F.col("value")), "keys": F.json_object_keys("row")}
    )
    is_malformed = F.lit(False) if options.is_debezium else _is_malformed(F.col("value"))
    parsed = parsed.withColumn("keys", F.when(~is_malformed, F.col("keys")))
    is_present = F.col("value").isNotNull()
    wanted = tuple(column.name for column in source.columns)
    checks = {code: (is_present & wrong, *others) for code, (wrong, *others) in _checks(options, wanted).items()}
    counts = {"without a value": ~is_present, "rows": is_present & ~is_malformed}
    if options.is_debezium:  # a tombstone only follows a delete
        counts = {"of a truncated table": F.col("op") == TRUNCATE, "rows": F.col("op").isin("c", "r", "u")}
    # Most messages have the same keys, so these are sorted once for each distinct sequence.
    per_keys = parsed.groupBy("keys").agg(
        *(F.count_if(F.coalesce(wrong, F.lit(False))).alias(code) for code, (wrong, _, _) in checks.items()),
        *(F.count_if(condition).alias(name) for name, condition in counts.items()),
        F.count_if(is_malformed).alias("malformed"),
        *_about_events(options),
    )
    extremes = [
        *(F.max(name).alias(name) for name in ("newest_read", "documents")),
        F.min("oldest_change").alias("oldest_change"),
    ]
    summary = per_keys.agg(
        F.collect_set(F.array_sort(F.array_distinct("keys"))).alias("key_sets"),
        *(F.coalesce(F.sum(quote_identifier(name)), F.lit(0)).alias(name) for name in (*checks, *counts, "malformed")),
        *((F.flatten(F.collect_set("shapes")).alias("shapes"), *extremes) if options.is_debezium else ()),
    ).first()
    for code, (wrong, message, hint) in checks.items():
        if summary[code]:
            raise _bad_message(code, source, parsed.where(wrong), summary[code], message, hint)
    rows = summary["rows"]
    skipped = {name: summary[name] for name in counts if name != "rows" and summary[name]}
    notes = [f"Skipped {counted(count, 'message')} {name}." for name, count in skipped.items()]
    delivered = {key for keys in summary["key_sets"] for key in keys} - set(MESSAGE_COLUMNS)
    paths = paths_within(delivered, wanted)
    if conflicts := [path for path in paths if path.partition(".")[0] in wanted]:
        raise path_conflict(source.name, conflicts[0])
    absent = [name for name in wanted if name not in (*delivered, *paths, *MESSAGE_COLUMNS)]
    if absent and rows and not options.is_debezium:
        notes.append(f"No new message has {', '.join(absent)}.")
    if not (rows and options.is_debezium):  # events have all columns, other objects may leave some out
        delivered |= set(absent)
    fields = [name for name in wanted if name in delivered]
    fields += sorted(delivered - set(fields) - only_parents(paths, wanted))
    known = (KEY, PARTITION, OFFSET, TIMESTAMP, *((OP, SEQUENCE) if options.is_debezium else ()))
    about = tuple(name for name in known if name in wanted)
    layout = Layout(tuple(fields), paths, about, tuple(notes), summary["malformed"] > 0)
    if not options.is_debezium:
        return layout
    numbers = Numbers(summary["newest_read"], summary["oldest_change"])
    shapes = Shapes.of(summary["shapes"])
    return replace(layout, shapes=shapes, numbers=numbers, has_documents=summary["documents"])


def _about_events(options: TopicOptions) -> list[Column]:
    """Return the schemas of Debezium's events, and the numbers of snapshot rows and changes that may be in conflict."""
    if not options.is_debezium:
        return []
    number = _sequence(options)
    return [
        F.collect_set("fields").alias("shapes"),
        F.coalesce(F.max(F.col("value").rlike(_DOCUMENT)), F.lit(False)).alias("documents"),
        F.max(F.when(F.col("op") == READ, number)).alias("newest_read"),
        F.min(F.when(F.col("op").isin("c", "u", "d"), number)).alias("oldest_change"),
    ]


def _checks(options: TopicOptions, wanted: tuple[str, ...]) -> dict[str, tuple[Column, str, str]]:
    """Return the condition of each fault of an event, its description and a hint, in the order of the checks."""
    if not options.is_debezium:
        return {}
    checks = {
        "WRONG_ENCODING": (is_undecoded(F.col("value")), "cannot be decoded as UTF-8", HINT),
        "BAD_JSON": (~F.col("is_object"), "not one JSON object", HINT),
        "HALF_CHARACTER": (has_lone_surrogate(F.col("value")), LONE_SURROGATE, SURROGATE_HINT),
    }
    is_row = F.coalesce(F.startswith(F.col("row"), F.lit("{")), F.lit(False))
    is_truncate = F.coalesce(F.col("op") == TRUNCATE, F.lit(False))
    known = F.coalesce(F.col("op").isin(*OPERATIONS), F.lit(False))
    checks["BAD_EVENT"] = (
        ~(is_truncate | (known & is_row)),
        "no event of Debezium with an operation and a row",
        "The envelope debezium needs op, and after or before. Deletes need before: the table's replica identity, or "
        "pre-images of MongoDB (capture.mode).",
    )
    checks["DUPLICATE_FIELD"] = (F.size(F.array_distinct("keys")) < F.size("keys"), REPEATED_KEY, HINT)
    if not options.skips_truncates:
        hint = "Bring the rows to what the source has now, then set the option truncates to skip for one load."
        checks["TABLE_TRUNCATED"] = (is_truncate, "the table was truncated, which no change of a row tells", hint)
    unit = {LSN: "source.lsn", TIME: "source.ts_ms"}.get(options.sequence, "offset")
    hint = "Set the option sequence to time or offset if the database has no such number."
    checks["NO_SEQUENCE"] = (known & _sequence(options).isNull(), f"no {unit} to order the event", hint)
    checks["UNAVAILABLE_VALUE"] = (
        is_unavailable(F.col("row"), options, wanted) & (F.col("op") != "d"),
        "an unchanged value that the database did not log",
        "Set REPLICA IDENTITY FULL for the table, so that events have all values.",
    )
    return checks


def _is_object(value: Column) -> Column:
    return F.coalesce(is_one_object(F.trim(value, F.lit(" \t\r\n"))), F.lit(False))


def _is_malformed(value: Column) -> Column:
    """Return the condition that a message without an envelope is malformed; NULL without a value."""
    return is_undecoded(value) | ~_is_object(value) | repeats_a_key(value) | has_lone_surrogate(value)


def _sequence(options: TopicOptions) -> Column:
    """Return the number by which the events of a row are ordered."""
    offset = F.col("offset")
    match options.sequence:
        case "lsn":
            return F.col("source.lsn").try_cast("bigint")
        case "time":
            time = F.try_multiply(F.col("source.ts_ms").try_cast("bigint"), F.lit(OFFSETS_PER_MILLISECOND))
            return time + offset % OFFSETS_PER_MILLISECOND
    return offset


def _bad_message(code: str, source: SourceSpec, wrong: DataFrame, count: int, message: str, hint: str) -> Refusal:
    text = F.left(F.make_valid_utf8("value"), F.lit(_SAMPLE_LENGTH))
    rows = wrong.select("partition", "offset", text.alias("text")).orderBy("partition", "offset").limit(SAMPLES)
    places = [place_of(source.location, *row) for row in rows.collect()]
    return Refusal(
        code,
        f"{places[0].where}: {message}" + (f"; {counted(count, 'message')} in all" if count > 1 else ""),
        file=source.location,
        row=places[0].number,
        count=count,
        samples=tuple(place.sample for place in places),
        hint=hint,
    )


def place_of(topic: str, partition: int, offset: int, text: str) -> Place:
    return Place(topic, f"partition {partition}, offset", offset, text)


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
        malformed = F.when(_is_malformed(F.col("value")), F.col("value")).otherwise(malformed)
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
        columns |= {OP: names[F.col("op")], SEQUENCE: _sequence(options)}
    return columns
