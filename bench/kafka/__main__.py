"""Measure the load of Debezium's events from a real broker into raw, history and rawcore.

The yardstick is a plain Spark job in the same session, which reads the same offsets, parses the events and writes them
to a Delta table. Both run in turns; the first round is not counted. Events are two thirds updates, arrive out of order
within a window, and one in fifty comes twice.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.problem import BenchProblem
from bench.processes.session import product_settings, start
from bench.report import write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative
from loader.domain.sources.feeds import FeedRange
from loader.domain.sources.kafka import spark_options
from loader.readers.kafka.client import Cluster
from metadata.domain.sources.clusters import MESSAGE_COLUMNS, parse_cluster
from tests.loader.topics import Topic
from tests.services.kafka import Broker, event, running_broker
from tests.services.process import ServerProblem

OUTPUT = ROOT / "bench" / "kafka_results.json"
PARTITIONS, WINDOW, TWICE, WANTED = 2, 500, 0.02, 5.0
ATTRIBUTES = {f"a{number}": "string" for number in range(8)} | {"amount": "decimal(12,2)", "day": "date"}
_ABOUT = ("_op", "_sequence", "_partition", "_offset")
COLUMNS = {"id": "integer"} | ATTRIBUTES | {name: MESSAGE_COLUMNS[name] for name in _ABOUT}
_AFTER = ", ".join(f"{name}: STRING" for name in ATTRIBUTES)
_EVENT = f"op: STRING, source: STRUCT<lsn: BIGINT>, before: STRUCT<id: INT>, after: STRUCT<id: INT, {_AFTER}>"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="elevata-bench-kafka-"))
    try:
        with running_broker() as broker:
            topic = broker.create("bench", PARTITIONS)
            _send(broker, topic, options.messages, schema=options.schema)
            spark = start(product_settings(folder / "warehouse", SPARK_JARS), "kafka")
            try:
                result = _measure(spark, folder, broker, topic, options)
            finally:
                spark.stop()
    except (BenchProblem, ServerProblem, RuntimeError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write_result(options.output, result)
    for name, seconds in result["seconds"].items():
        print(f"{name:<12} {median(seconds):8.1f} s   of {', '.join(f'{value:.1f}' for value in seconds)}")
    for name, entry in result["measures"].items():
        print(f"{name:<12} {entry['ratio']:.2f}   wanted: at most {entry['wanted']}")
    print(f"written to {relative(options.output)}")
    return 0 if all(entry["ratio"] <= entry["wanted"] for entry in result["measures"].values()) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, metavar="N", help="events (1000000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="counted rounds (3)")
    parser.add_argument("--schema", action="store_true", help="events with their schema")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/kafka_results.json")
    return parser


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


def _measure(spark: SparkSession, folder: Path, broker: Broker, topic: str, options: argparse.Namespace) -> dict:
    place = parse_cluster(f"kafka://{broker.address}")
    described = Cluster(place, ["127.0.0.1"]).describe(topic)
    ranges = [FeedRange(topic, described.id, number, *ends) for number, ends in described.partitions.items()]
    total = sum(read.end - read.start for read in ranges)
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    versions = 0
    for number in range(options.rounds + 1):
        ours = Topic(
            spark,
            folder / f"ours-{number}",
            name=f"bench{number}",
            columns=dict(COLUMNS),
            address=broker.address,
            topic=topic,
        )
        ours.folder.mkdir()
        ours.prepare()
        taken = {
            "plain": _timed(spark, lambda at=number: _plain(spark, folder / f"plain-{at}", place, topic, ranges)),
            "ours": _timed(spark, lambda dataset=ours: _load(dataset, total)),
        }
        versions = ours.table(ours.history_spec).frame().count()
        for name, value in taken.items():
            print(f"round {number}: {name} {value:.1f} s", file=sys.stderr, flush=True)
            if number:
                seconds[name].append(value)
        shutil.rmtree(ours.folder)
    ratio = round(median(seconds["ours"]) / median(seconds["plain"]), 2)
    return {
        "messages": total,
        "versions": versions,
        "seconds": {name: [round(value, 2) for value in values] for name, values in seconds.items()},
        "measures": {"ours / plain": {"ratio": ratio, "wanted": WANTED}},
    }


def _timed(spark: SparkSession, work: Callable[[], None]) -> float:
    spark._jvm.System.gc()
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _load(dataset: Topic, total: int) -> None:
    status, raw, history = dataset.run("r1", 0)
    if (status, raw["counts"]["rows"]) != ("succeeded", total):
        raise BenchProblem(f"the load is wrong: {raw} {history}")


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
