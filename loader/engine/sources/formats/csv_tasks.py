"""CSV that Spark's reader does not read: lines before the header or after the records, headers of several lines.

A task per file reads it in Python, twice: for its columns and refusals, and for its rows.
"""

from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.refusals import Refusal
from loader.engine.sources.files import DeliveredFile
from loader.engine.sources.formats.csv_files import CsvFormat, files_lacking
from loader.engine.sources.formats.record_files import contents_of
from loader.engine.sources.opened import Delivered, FileFormat, Group, Layout, Opened, Rows
from loader.readers.records.csv_reading import CsvReading

_SCHEMA = T.StructType(
    [
        T.StructField("file", T.StringType()),
        T.StructField("line", T.LongType()),
        T.StructField("fields", T.ArrayType(T.StringType())),
        T.StructField("malformed", T.StringType()),
    ]
)


class CsvTaskFormat(FileFormat):
    """CSV with lines that are neither its records nor a header of one record. Rows are numbered by their lines."""

    has_lines = spans_lines = skips_empty = has_row_numbers = True
    is_split = False
    numbers = "line"
    malformed = CsvFormat.malformed

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        reading = CsvReading(delivered.options, contract)
        results = contents_of(delivered, delivered.files).map(reading.names).collect()
        for refusal in (result["refusal"] for result in results if "refusal" in result):
            raise Refusal.from_json(refusal)
        layouts: dict[tuple[tuple[str, ...], tuple[str, ...]], list[DeliveredFile]] = {}
        headers = {result["path"]: (tuple(result["names"]), tuple(result["header"])) for result in results}
        for file in delivered.files:
            layouts.setdefault(headers[file.path], []).append(file)
        groups = tuple(Group(tuple(files), names, header=header) for (names, header), files in layouts.items())
        every = tuple(dict.fromkeys(name for group in groups for name in group.names))
        warnings = tuple(result["warning"] for result in results if result["warning"])
        types = tuple(T.StringType() for _ in every)
        return Layout(every, types, groups, files_lacking(groups, every), notes=warnings)

    def rows(self, opened: Opened, group: Group) -> Rows:
        reading = CsvReading(opened.options, () if opened.options.header else group.names)
        records = contents_of(opened, group.files).flatMap(reading.rows)
        frame = opened.spark.createDataFrame(records, _SCHEMA, verifySchema=False)
        values = {name: F.get("fields", F.lit(place)) for place, name in enumerate(group.names)}
        return Rows(frame, values, F.col("malformed"), file=F.col("file"), order=F.col("line"))
