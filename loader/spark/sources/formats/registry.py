"""Reader of each format by its name in metadata."""

from loader.spark.sources.formats.csv_files import CsvFormat
from loader.spark.sources.formats.json_lines import JsonLinesFormat
from loader.spark.sources.formats.typed_files import TypedFormat
from loader.spark.sources.opened import FileFormat

FORMATS: dict[str, FileFormat] = {
    "csv": CsvFormat(),
    "jsonl": JsonLinesFormat(),
    "parquet": TypedFormat("parquet", mergeSchema=True),
}
