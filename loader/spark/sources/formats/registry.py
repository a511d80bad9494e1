"""Reader of each format by its name in metadata."""

from loader.spark.sources.formats.csv_files import CsvFormat
from loader.spark.sources.formats.fixed_width import FixedWidthFormat
from loader.spark.sources.formats.json_lines import JsonLinesFormat
from loader.spark.sources.formats.record_files import RecordFormat
from loader.spark.sources.formats.typed_files import AvroFormat, TypedFormat
from loader.spark.sources.opened import FileFormat

FORMATS: dict[str, FileFormat] = {
    "csv": CsvFormat(),
    "jsonl": JsonLinesFormat(),
    "fixed": FixedWidthFormat(),
    "json": RecordFormat("json", "record"),
    "xml": RecordFormat("xml", "line"),
    "xlsx": RecordFormat("xlsx", "row"),
    "parquet": TypedFormat("parquet"),
    "orc": TypedFormat("orc"),
    "avro": AvroFormat(),
}
