"""Provenance of raw rows: the file and row number of each, in every format, also of files that several tasks read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.engine.session import source_roots
from loader.engine.sources.deliveries import read_delivery, read_opened
from loader.engine.sources.delivery_reading import open_delivery
from tests.loader.engine.sources.formats.test_typed_files import avro, record
from tests.loader.readers.records.workbook_files import workbook

pytestmark = pytest.mark.spark

ID = DeliveredColumn("k-id", "id", "string", nullable=False, business_key=True)


def provenance(spark: SparkSession, location: object, kind: str, **options: object) -> dict[str, tuple[str, int]]:
    """Return file and row number by id."""
    delivery = read_delivery(spark, SourceSpec("s.t", str(location), kind, (ID,), options))
    rows = delivery.rows_with_provenance.select("id", SOURCE_FILE, SOURCE_ROW).collect()
    delivery.release()
    assert len({row[0] for row in rows}) == len(rows)
    return {id_: (file, number) for id_, file, number in rows}


@contextmanager
def blocks_of(spark: SparkSession, size: int) -> Iterator[None]:
    """Let Spark read files in blocks of this size, several of them in a task."""
    settings = {"spark.sql.files.maxPartitionBytes": str(size), "spark.sql.files.openCostInBytes": "1"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


CSV = 'id,note\n"a","two\nlines"\n\nb,"x ""y"""\nc,\n'
EACH = {
    "csv": (CSV, "id,note\nd,\n", {"a": 1, "b": 2, "c": 3, "d": 1}),
    "jsonl": ('{"id": "a"}\n\n{"id": "b"}\n{"id": "c"}\n', '{"id": "d"}\n', {"a": 1, "b": 2, "c": 3, "d": 1}),
    "fixed": ("a\nb\n\nc\n", "d\n", {"a": 1, "b": 2, "c": 3, "d": 1}),
    "json": ('[{"id": "a"},\n{"id": "b"}, {"id": "c"}]', '[{"id": "d"}]', {"a": 1, "b": 2, "c": 3, "d": 1}),
    "xml": ('<r>\n<i id="a"/>\n<i id="b"/><i id="c"/></r>', '<r><i id="d"/></r>', {"a": 2, "b": 3, "c": 3, "d": 1}),
    "xlsx": (
        workbook({"S": {2: ["id"], 3: ["a"], 7: ["b"], 8: ["c"]}}),
        workbook({"S": [["id"], ["d"]]}),
        {"a": 3, "b": 7, "c": 8, "d": 2},
    ),
}
OPTIONS = {"fixed": {"columns": "id:1-1", "short_lines": True}}


@pytest.mark.core
@pytest.mark.parametrize("kind", list(EACH))
def test_rows_have_the_relative_path_of_their_file_and_their_row_number(spark, put, tmp_path, kind):
    first, second, numbers = EACH[kind]
    names = f"ü %20 +1.{kind}", f"b/2.{kind}"
    for name, content in zip(names, (first, second), strict=True):
        put(f"day/{name}", content)
    options = OPTIONS.get(kind, {})
    expected = {id_: (names[id_ == "d"], number) for id_, number in numbers.items()}
    assert provenance(spark, tmp_path / "day", kind, **options) == expected
    one_file = provenance(spark, tmp_path / "day" / names[0], kind, **options)
    assert one_file == {id_: place for id_, place in expected.items() if id_ != "d"}
    by_pattern = provenance(spark, tmp_path / "d*" / f"*1.{kind}", kind, **options)
    assert by_pattern["b"] == (f"day/{names[0]}", numbers["b"])


@pytest.mark.parametrize("kind", ["csv", "jsonl", "fixed", "parquet", "orc", "avro"])
@pytest.mark.parametrize("files", [1, 3])
def test_row_numbers_do_not_depend_on_the_number_of_reading_tasks(spark, put, tmp_path, kind, files):
    expected = {}
    for number in range(files):
        ids = [f"{number}-{row}" for row in range(1, 401)]
        name = f"p{number}.{kind}"
        expected |= {id_: (name, row) for row, id_ in enumerate(ids, start=1)}
        lines = {"csv": "{}", "jsonl": '{{"id": "{}"}}', "fixed": "{:8}"}
        if kind in lines:
            head = ["id"] if kind == "csv" else []
            put(f"day/{name}", "\n".join(head + [lines[kind].format(id_) for id_ in ids]))
        elif kind == "avro":
            avro(tmp_path / "day" / name, [record(id_) for id_ in ids])
        else:
            frame = spark.createDataFrame([(id_,) for id_ in ids], "id STRING").coalesce(1)
            options = {"parquet.block.size": "2048", "orc.stripe.size": "2048", "orc.rows.between.memory.checks": "1"}
            frame.write.options(**options).format(kind).save(str(tmp_path / f"{name}.folder"))
            (part,) = (tmp_path / f"{name}.folder").glob(f"*.{kind}")
            (tmp_path / "day").mkdir(exist_ok=True)
            part.rename(tmp_path / "day" / name)
    options = {"columns": "id:1-8"} if kind == "fixed" else {}
    with blocks_of(spark, 1000):
        assert provenance(spark, tmp_path / "day", kind, **options) == expected


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_row_numbers_include_rows_outside_of_the_read_window(spark, tmp_path, kind):
    folder, roots = str(tmp_path / "day"), source_roots(spark)
    for ids in ("abcd", "efg"):
        frame = spark.createDataFrame([(id_,) for id_ in ids], "id STRING").coalesce(1)
        frame.write.mode("append").format(kind).save(folder)
    opened = open_delivery(spark, "s.t", folder, kind, {}, ("id",), ("id",), roots=roots)
    windowed = replace(opened, condition=opened.column("id").isin("c", "d", "f"))
    delivery = read_opened(windowed, SourceSpec("s.t", folder, kind, (ID,), {}))
    numbers = dict(delivery.rows_with_provenance.select("id", SOURCE_ROW).collect())
    delivery.release()
    assert numbers == {"c": 3, "d": 4, "f": 2}


def test_rows_of_a_delta_table_have_its_name_and_version(spark, tmp_path):
    location = str(tmp_path / "orders")
    spark.sql("SELECT 'a' id").write.format("delta").save(location)
    spark.sql("SELECT 'b' id").write.format("delta").mode("append").save(location)
    assert provenance(spark, location, "delta") == {"a": ("orders@v1", None), "b": ("orders@v1", None)}
