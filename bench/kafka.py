"""Kafka: Debezium's events from a real broker into raw, history and rawcore.

The yardstick is a plain Spark job in the same session, which reads the same offsets, parses the events and writes them
to a Delta table. Events are two thirds updates, arrive out of order within a window, and one in fifty comes twice.
"""

import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.problem import BenchProblem
from bench.runner import Bound, Measure, Run, require
from loader.domain.sources.feeds import FeedRange
from loader.domain.sources.kafka import spark_options
from loader.readers.kafka.client import Cluster
from metadata.domain.sources.clusters import MESSAGE_COLUMNS, parse_cluster
from tests.loader.topics import Topic
from tests.services.kafka import Broker, event, running_broker
from tests.services.process import ServerProblem

OURS, PLAIN = "ours", "plain Spark"
PARTITIONS, WINDOW, TWICE = 2, 500, 0.02
ATTRIBUTES = {f"a{number}": "string" for number in range(8)} | {"amount": "decimal(12,2)", "day": "date"}
_ABOUT = ("_op", "_sequence", "_partition", "_offset")
COLUMNS = {"id": "integer"} | ATTRIBUTES | {name: MESSAGE_COLUMNS[name] for name in _ABOUT}
_AFTER = ", ".join(f"{name}: STRING" for name in ATTRIBUTES)
_EVENT = f"op: STRING, source: STRUCT<lsn: BIGINT>, before: STRUCT<id: INT>, after: STRUCT<id: INT, {_AFTER}>"


def take(run: Run) -> dict[str, Any]:
    try:
        broker = run.enter(running_broker())
    except ServerProblem as problem:
        raise BenchProblem(str(problem)) from problem
    topic = broker.create("bench", PARTITIONS)
    _send(broker, topic, run.options.messages, schema=run.options.schema)
    spark, place = run.spark, parse_cluster(f"kafka://{broker.address}")
    described = Cluster(place, ["127.0.0.1"]).describe(topic)
    ranges = [FeedRange(topic, described.id, number, *ends) for number, ends in described.partitions.items()]
    total, versions = sum(read.end - read.start for read in ranges), 0
    for number in run.rounds():
        folder, plain = run.folder / f"ours-{number}", run.folder / f"plain-{number}"
        about = {"name": f"bench{number}", "columns": dict(COLUMNS), "address": broker.address, "topic": topic}
        ours = Topic(spark, folder, **about)
        folder.mkdir()
        ours.prepare()
        run.timed(PLAIN, lambda plain=plain: _plain(spark, plain, place, topic, ranges))
        run.timed(OURS, lambda ours=ours: _load(ours, total))
        versions = ours.table(ours.history_spec).frame().count()
        shutil.rmtree(folder)
    return {"messages": total, "versions": versions}


def _send(broker: Broker, topic: str, count: int, *, schema: bool) -> None:
    chance = random.Random(7)
    partitions: dict[int, list[tuple[object, object]]] = {number: [] for number in range(PARTITIONS)}
    events = _events(count, chance, schema=schema)
    while shuffled := list(islice(events, WINDOW)):
        chance.shuffle(shuffled)
        for id_, message in shuffled:
            partitions[id_ % PARTITIONS].append(({"id": id_}, message))
        for number, messages in partitions.items():
            broker.send(topic, messages, partition=number)
            messages.clear()


def _events(count: int, chance: random.Random, *, schema: bool) -> Iterator[tuple[int, dict]]:
    keys, sent = max(1, count // 4), 0
    while sent < count:
        lsn, id_ = sent + 1, chance.randrange(keys)
        row = {"id": id_} | {f"a{number}": f"text {chance.randrange(1000)} of {number}" for number in range(8)}
        row |= {"amount": f"{chance.randrange(1_000_000) / 100:.2f}", "day": chance.randrange(20_000)}
        op = chance.choices("cud", (30, 66, 4))[0]
        change = event(op, row, lsn, schema=schema)
        for _ in range(2 if chance.random() < TWICE else 1):
            yield id_, change
            sent += 1


def _load(dataset: Topic, total: int) -> None:
    status, raw, history = dataset.run("r1", 0)
    require((status, raw["counts"]["rows"]), ("succeeded", total), f"the load of {raw} and {history}")


def _plain(spark: SparkSession, folder: Path, place, topic: str, ranges: list[FeedRange]) -> None:
    options = spark_options(place, "", topic, ranges) | {"minPartitions": str(spark.sparkContext.defaultParallelism)}
    frame = spark.read.format("kafka").options(**options).load()
    schema = f"STRUCT<payload: STRUCT<{_EVENT}>, {_EVENT}>"
    parsed = frame.select("partition", "offset", F.from_json(F.col("value").cast("string"), schema).alias("e"))
    event_of = F.coalesce(F.col("e.payload"), F.struct("e.op", "e.source", "e.before", "e.after"))
    parsed = parsed.select("partition", "offset", event_of.alias("e"))
    row = [F.col(f"e.after.{name}").cast(type_).alias(name) for name, type_ in ATTRIBUTES.items() if name != "day"]
    day = F.date_from_unix_date(F.col("e.after.day").cast("int")).alias("day")
    id_ = F.coalesce("e.after.id", "e.before.id").alias("id")
    parsed.select("partition", "offset", "e.op", "e.source.lsn", id_, *row, day).write.format("delta").save(str(folder))


MEASURE = Measure(
    take,
    sizes={"messages": 1_000_000, "schema": False},
    rounds=3,
    bounds=(Bound("ours / plain Spark", OURS, PLAIN, 5),),
)
