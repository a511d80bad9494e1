"""Formats that are read record by record in Python, a file per task: JSON documents, XML, Excel workbooks.

Each file is read twice: for its columns and refusals, and for its rows. The limits of the formats bound the memory of a
task (``loader.readers.records``).
"""

from dataclasses import replace

from pyspark import RDD
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.refusals import Refusal
from loader.engine.sources.delivered_columns import nulls_read
from loader.engine.sources.files import DeliveredFile
from loader.engine.sources.opened import Delivered, FileFormat, Group, Layout, Opened, Rows
from loader.engine.task_modules import ship_modules
from loader.readers.records.readers import LOCAL, FileReading, check_kinds, united_warnings
from loader.readers.records.unpacking import too_large

_SCHEMA = T.StructType(
    [
        T.StructField("file", T.StringType()),
        T.StructField("number", T.LongType()),
        T.StructField("values", T.MapType(T.StringType(), T.StringType())),
    ]
)
# Limit of a file on an object store: the JVM reads it into memory before a task gets it.
_LARGEST_REMOTE = 64 << 20  # bytes
_TASKS = 256


class RecordFormat(FileFormat):
    """Format of ``loader.readers.records``; ``numbers`` is the unit of its records' numbers."""

    has_row_numbers = True

    def __init__(self, name: str, numbers: str):
        self._name, self.numbers = name, numbers

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        reading = FileReading(self._name, delivered.options, contract)
        summaries = contents_of(delivered, delivered.files).map(reading.summary).collect()
        for refusal in (summary["refusal"] for summary in summaries if "refusal" in summary):
            raise Refusal.from_json(refusal)
        check_kinds(summaries, delivered.shown, contract, delivered.options.ignored)
        names = dict.fromkeys(name for summary in summaries for name in summary["names"])
        is_empty = not any(summary["rows"] for summary in summaries)
        first = tuple(name for name in contract if name in names or is_empty)
        layout = Layout.of_text((*first, *(name for name in names if name not in first)), delivered.files)
        return replace(layout, notes=united_warnings([summary["warning"] for summary in summaries]))

    def rows(self, opened: Opened, group: Group) -> Rows:
        reading = FileReading(self._name, opened.options, opened.names)
        records = contents_of(opened, group.files).flatMap(reading.rows)
        frame = opened.spark.createDataFrame(records, _SCHEMA, verifySchema=False)
        values = {name: nulls_read(_value(name), opened.options) for name in group.names}
        return Rows(frame, values, file=F.col("file"), order=F.col("number"))


def _value(name: str) -> Column:
    return F.try_element_at("values", F.lit(name))


def contents_of(delivered: Delivered, files: tuple[DeliveredFile, ...]) -> RDD:
    """Return (path, content) of each file. Content is None for a local file, which its task opens.

    Raise Refusal TOO_LARGE for a large file of an object store.
    """
    spark = delivered.spark
    ship_modules(spark.sparkContext)
    if all(file.path.startswith(LOCAL) for file in files):
        return spark.sparkContext.parallelize([(file.path, None) for file in files], min(len(files), _TASKS))
    for file in files:
        if file.size > _LARGEST_REMOTE:
            raise too_large(
                file.shown, f"it is more than {_LARGEST_REMOTE >> 20} MB on an object store", _LARGEST_REMOTE
            )
    paths = [file.pattern for file in files]
    frame = spark.read.format("binaryFile").load(paths).select("path", "content")
    return frame.rdd.map(lambda row: (row["path"], bytes(row["content"])))
