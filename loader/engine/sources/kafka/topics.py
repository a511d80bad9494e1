"""Topics of Kafka as deliveries: the messages between fixed offsets, as JSON objects or change events of Debezium.

The offsets are fixed before the first message is read (``new_messages``), so checks and write, and all partitions,
read the same messages. ``loader.domain.sources.feeds`` selects them, ``loader.readers.kafka`` asks the cluster.

Refusals beside those of every delivery (``loader.engine.sources.deliveries``) and of ``loader.readers.kafka.client``:

=====================  =====================================================================
SECRET_NOT_SET         the system names a password that the worker does not have
READER_MISSING         Spark's reader of Kafka topics is not among its jars
TOPIC_REPLACED         the topic was deleted and created again, or lost its newest messages
OFFSETS_EXPIRED        messages expired before they were read
DUPLICATE_FIELD        an object names a field more than once
BAD_EVENT              a message is no event of Debezium with a row
NO_SEQUENCE            an event lacks the value of the option sequence
UNAVAILABLE_VALUE      Debezium did not get a value that the database had not logged
TABLE_TRUNCATED        the table was truncated, which no change of a row tells
SOURCE_GONE            the connection was lost while messages were read
=====================  =====================================================================
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.installation import user_command
from elevata.core.words import counted
from loader.contract.manifest.loads import RawLoad
from loader.contract.manifest.sources import ClusterSpec, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.extras import packages_of
from loader.domain.sources.feeds import FeedChoice, FeedLog, FeedRange, Topic, choose_messages
from loader.domain.sources.kafka import MESSAGES_OF_TASK, TopicOptions, spark_options
from loader.engine.java_errors import JAVA_ERRORS, thrown_by
from loader.engine.session import source_hosts
from loader.engine.sources.kafka.envelopes import parsed_events
from loader.engine.sources.kafka.message_rows import DELETED, rows_of
from loader.engine.sources.kafka.messages import MALFORMED_MESSAGES, UNREAD_HINT, checked_layout, place_of
from loader.engine.sources.kafka.snapshot_rows import EarlierRows, Numbers, in_log_order
from loader.engine.sources.kafka.values import Shapes
from loader.engine.sources.opened import FileFormat, Opened, Place
from metadata.domain.sources.formats import KAFKA
from metadata.domain.sources.locations import Roots
from metadata.domain.types import STRING, parse, spark_type

if TYPE_CHECKING:
    from loader.readers.kafka.client import Cluster

_SAMPLED_FOR_TYPES = 10_000


class MessageFormat(FileFormat):
    """Messages in UTF-8, each one JSON object. They never change, and their offsets are fixed."""

    has_files = False
    malformed = MALFORMED_MESSAGES

    def own_types(self, opened: Opened) -> dict[str, T.DataType]:
        """Return the types of JSON's own notation, from the first messages."""
        if not isinstance(opened, OpenedTopic) or len({name.lower() for name in opened.names}) < len(opened.names):
            return {}
        schema = opened.spark.read.json(opened.objects.limit(_SAMPLED_FOR_TYPES)).schema
        types = {field.name: field.dataType for field in schema}
        types_by_name = {name: parse(opened.shapes.type_of(name)) for name in types}
        return types | {
            name: T.DataType.fromDDL(spark_type(type_)) for name, type_ in types_by_name.items() if type_.name != STRING
        }


@dataclass(frozen=True)
class OpenedTopic(Opened):
    """Messages of a topic between fixed offsets. ``objects`` has the JSON text of each row as its only column."""

    rows: DataFrame
    objects: DataFrame
    source: SourceSpec
    shapes: Shapes = Shapes({})
    numbers: Numbers = Numbers()

    @property
    def shown(self) -> str:
        return self.location

    @property
    def first_shown(self) -> str:
        return self.location

    def frame(self, *, numbered: bool = False) -> DataFrame:
        """Return the rows, which have partition and offset in any case."""
        return self.with_key_texts(self.rows)

    def lacks(self, name: str) -> Column:
        """Return the condition that a required value is missing; a delete needs the key only."""
        return self.column(name).isNull() & ~F.col(DELETED)

    @property
    def place_columns(self) -> list[Column]:
        """Return partition and offset."""
        return [F.col("partition"), F.col("offset")]

    def own_place(self, values: Sequence, text: str) -> Place:
        partition, offset = values
        return place_of(self.location, partition, offset, text)

    def own_provenance(self) -> tuple[Column, Column]:
        """Return the topic and partition of each message, and its offset."""
        return F.concat(F.lit(f"{self.location}/"), F.col("partition").cast("string")), F.col("offset")

    def unfit(self, name: str) -> Column:
        unread = f"x{self.names.index(name)}"
        return F.col(unread).isNotNull() if unread in self.rows.columns else F.lit(False)

    def text_of(self, name: str) -> Column:
        unread, text = f"x{self.names.index(name)}", self.column(name)
        return F.coalesce(F.col(unread), text) if unread in self.rows.columns else text

    def misfit_hint(self, name: str) -> str:
        return UNREAD_HINT if f"x{self.names.index(name)}" in self.rows.columns else ""

    @contextmanager
    def reading(self, *, again: bool) -> Iterator[None]:
        with _reading(self.source):
            yield


def new_messages(spark: SparkSession, load: RawLoad, log: FeedLog, applied: int) -> tuple[FeedChoice, tuple[str, ...]]:
    """Return the messages that a feed has not loaded, up to the present end of each partition, and warnings.

    Raise Refusal OFFSETS_EXPIRED or TOPIC_REPLACED, or those of ``loader.readers.kafka.client``.
    """
    source = load.source
    options = TopicOptions.of(source.name, source.options)
    topic = _cluster(spark, source).describe(source.location)
    choice = choose_messages(load.name, log, topic, applied=applied, skip_lost=options.skips_lost)
    warnings = []
    if choice.restarted:
        warnings.append(f"{topic.name} was deleted and created again: it is read from its earliest message on.")
    if choice.skipped:
        warnings.append(f"{counted(choice.skipped, 'message')} of {topic.name} expired before being loaded.")
    if not choice.ranges:
        warnings.append(f"No new messages: all of {topic.name} was loaded before.")
    return choice, tuple(warnings)


def open_topic(
    spark: SparkSession,
    source: SourceSpec,
    ranges: tuple[FeedRange, ...] = (),
    earlier: EarlierRows | None = None,
) -> OpenedTopic:
    """Find the columns of the messages between the offsets and prepare the rows; by default of the whole topic.

    ``earlier`` are the rows that former loads read of the topic.
    """
    options = TopicOptions.of(source.name, source.options)
    if not ranges:
        ranges = _whole(_cluster(spark, source).describe(source.location))
    with _reading(source):
        messages = _messages(spark, source, ranges)
        events = messages.where(F.col("value").isNotNull())
        layout = checked_layout(messages, source, options)
        rows = rows_of(events, layout, source, options)
    opened = OpenedTopic(
        spark=spark,
        name=source.name,
        location=source.location,
        roots=Roots(()),
        format=KAFKA,
        options=options.reading,
        files=(),
        reader=MessageFormat(),
        names=layout.names,
        types=tuple(T.StringType() for _ in layout.names),
        missing={},
        header_lines={},
        groups=(),
        keys=tuple(column.name for column in source.columns if column.business_key),
        rows=rows,
        objects=parsed_events(events, options).select("row"),
        source=source,
        notes=layout.notes,
        shapes=layout.shapes,
        numbers=layout.numbers,
    )
    keyed = opened.with_key_texts(rows)
    return replace(opened, rows=in_log_order(keyed, opened.names, opened.keys, layout.numbers, earlier))


def _cluster(spark: SparkSession, source: SourceSpec) -> "Cluster":
    with packages_of("kafka"):
        from loader.readers.kafka.client import Cluster
    source.check_password()
    system = _spec(source)
    return Cluster(system.place, source_hosts(spark), system.secret, system.password)


def _spec(source: SourceSpec) -> ClusterSpec:
    assert source.cluster is not None, f"{source.name} is no topic"
    return source.cluster


def _whole(topic: Topic) -> tuple[FeedRange, ...]:
    return tuple(
        FeedRange(topic.name, topic.id, partition, start, end)
        for partition, (start, end) in sorted(topic.partitions.items())
        if start < end
    )


def _messages(spark: SparkSession, source: SourceSpec, ranges: tuple[FeedRange, ...]) -> DataFrame:
    """Return the messages between the offsets: partition, offset, timestamp, key and value."""
    if not ranges:
        columns = "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value STRING"
        return spark.createDataFrame([], columns)
    system = _spec(source)
    options = spark_options(system.place, system.password, source.location, ranges)
    count = sum(offsets.end - offsets.start for offsets in ranges)
    if count > MESSAGES_OF_TASK:
        options["minPartitions"] = str(max(spark.sparkContext.defaultParallelism, len(ranges)))
    try:
        frame = spark.read.format(KAFKA).options(**options).load()
    except AnalysisException:
        raise Refusal(
            "READER_MISSING",
            f"{source.name}: Spark has no reader of Kafka topics",
            hint=f"Run {user_command('setup')}, or add org.apache.spark:spark-sql-kafka-0-10_2.13 to the jars of "
            "ELEVATA_SPARK_JARS.",
        ) from None
    return frame.select("partition", "offset", "timestamp", "key", F.col("value").cast("string"))


@contextmanager
def _reading(source: SourceSpec) -> Iterator[None]:
    """Convert errors of Kafka's client in Spark into refusals."""
    try:
        yield
    except JAVA_ERRORS as failure:
        _raise_refusal(source, failure)


_KAFKA = "org.apache.kafka."
_EXPIRED = ("OffsetOutOfRangeException", "KafkaIllegalStateException")


def _raise_refusal(source: SourceSpec, failure: BaseException) -> NoReturn:
    """Raise the refusal for an error of Kafka, or the failure itself if Kafka is not its cause."""
    chain = thrown_by(failure)
    names = [thrown.name.rpartition(".")[2] for thrown in chain]
    text = " ".join(thrown.message for thrown in chain)
    place, reason = _spec(source).place, next((thrown.message for thrown in reversed(chain) if thrown.message), "")
    reason = reason.splitlines()[0][:300] if reason else "no message"
    if any(name in _EXPIRED for name in names) or "data may have been lost" in text or "KAFKA_DATA_LOSS" in text:
        message, hint = f"messages expired while they were read: {reason}", "Load more often, or prolong the retention."
        raise Refusal("OFFSETS_EXPIRED", f"{source.name}: {message}", file=source.location, hint=hint) from None
    if any("Authentication" in name for name in names):
        hint = "Correct user and mechanism in the system's location, or the password in the variable."
        raise Refusal("SIGN_IN_REFUSED", f"{place} does not let the user in: {reason}", hint=hint) from None
    if any("Authorization" in name for name in names):
        hint = "The user needs READ and DESCRIBE on the topic."
        raise Refusal("NOT_ALLOWED", f"{place} refuses: {reason}", hint=hint) from None
    if any(_KAFKA in f"{thrown.name} {thrown.message}" for thrown in chain):
        message = f"the connection to {place} was lost while messages were read: {reason}"
        hint = "Nothing was loaded. Run again under the same id once the cluster is back."
        raise Refusal("SOURCE_GONE", f"{source.name}: {message}", file=source.location, hint=hint) from None
    raise failure
