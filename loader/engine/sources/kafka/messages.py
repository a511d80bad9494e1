"""Layout and checks of Kafka messages: JSON objects, or change events of Debezium, with or without their schema.

One pass finds the columns and checks each event of Debezium by itself (``checked_layout``): a stream of changes that
lacks one event is wrong, so a faulty one refuses the delivery. ``message_rows`` then gives the rows; a malformed
message without an envelope is a malformed record among them.
"""

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from elevata.core.words import counted
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.kafka import OPERATIONS, TRUNCATE, TopicOptions
from loader.engine.nested_values import is_undecoded
from loader.engine.pyspark_types import row_of
from loader.engine.sources.delivered_columns import only_parents, paths_within
from loader.engine.sources.formats.json_lines import (
    LONE_SURROGATE,
    NO_OBJECT,
    REPEATED_KEY,
    SURROGATE_HINT,
    has_lone_surrogate,
    path_conflict,
    repeats_a_key,
)
from loader.engine.sources.kafka.envelopes import READ, is_json_object, is_malformed_message, parsed_events, sequence_of
from loader.engine.sources.kafka.snapshot_rows import Numbers
from loader.engine.sources.kafka.values import Shapes, is_unavailable
from loader.engine.sources.opened import MalformedRecord, Place
from metadata.domain.sources.clusters import KEY, MESSAGE_COLUMNS, OFFSET, PARTITION, TIMESTAMP
from metadata.domain.sources.formats import OP, SEQUENCE
from metadata.domain.sources.option_kinds import LSN, TIME
from metadata.domain.sql import quote_identifier

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
# A row that is the JSON text of a document, not an object. Within texts, quotes would follow a backslash.
_DOCUMENT = r'"(after|before)"\s*:\s*"\{'


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


def checked_layout(messages: DataFrame, source: SourceSpec, options: TopicOptions) -> Layout:
    """Return the columns after a check of each event of Debezium by itself, in one pass.

    Malformed messages without an envelope give no columns.
    """
    parsed = parsed_events(messages, options).withColumns(
        {"is_object": is_json_object(F.col("value")), "keys": F.json_object_keys("row")}
    )
    is_malformed = F.lit(False) if options.is_debezium else is_malformed_message(F.col("value"))
    parsed = parsed.withColumn("keys", F.when(~is_malformed, F.col("keys")))
    is_present = F.col("value").isNotNull()
    wanted = tuple(column.name for column in source.columns)
    checks = {
        code: (is_present & wrong, message, hint) for code, (wrong, message, hint) in _checks(options, wanted).items()
    }
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
    totals = (*checks, *counts, "malformed")
    summary = row_of(
        per_keys.agg(
            F.collect_set(F.array_sort(F.array_distinct("keys"))).alias("key_sets"),
            *(F.coalesce(F.sum(quote_identifier(name)), F.lit(0)).alias(name) for name in totals),
            *((F.flatten(F.collect_set("shapes")).alias("shapes"), *extremes) if options.is_debezium else ()),
        ).first()
    )
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
    number = sequence_of(options)
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
    checks["NO_SEQUENCE"] = (known & sequence_of(options).isNull(), f"no {unit} to order the event", hint)
    checks["UNAVAILABLE_VALUE"] = (
        is_unavailable(F.col("row"), options, wanted) & (F.col("op") != "d"),
        "an unchanged value that the database did not log",
        "Set REPLICA IDENTITY FULL for the table, so that events have all values.",
    )
    return checks


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
