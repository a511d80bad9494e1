"""Reader of each format by its name in metadata."""

from loader.spark.sources.formats.avro_files import AvroFormat
from loader.spark.sources.formats.csv_files import CsvFormat
from loader.spark.sources.formats.delta_tables import DeltaFormat
from loader.spark.sources.formats.fixed_width import FixedWidthFormat
from loader.spark.sources.formats.json_lines import JsonLinesFormat
from loader.spark.sources.formats.parquet_files import ParquetFormat
from loader.spark.sources.formats.record_files import RecordFormat
from loader.spark.sources.formats.typed_files import OrcFormat
from loader.spark.sources.opened import FileFormat
from metadata.domain.sources import formats as names

FORMATS: dict[str, FileFormat] = {
    names.CSV: CsvFormat(),
    names.JSONL: JsonLinesFormat(),
    names.FIXED: FixedWidthFormat(),
    names.JSON: RecordFormat(names.JSON, "record"),
    names.XML: RecordFormat(names.XML, "line"),
    names.XLSX: RecordFormat(names.XLSX, "row"),
    names.PARQUET: ParquetFormat(),
    names.ORC: OrcFormat(),
    names.AVRO: AvroFormat(),
    names.DELTA: DeltaFormat(),
}
