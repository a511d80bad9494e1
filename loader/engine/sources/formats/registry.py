"""Reader of each format by its name in metadata."""

from loader.engine.sources.formats.avro_files import AvroFormat
from loader.engine.sources.formats.csv_files import CsvFormat
from loader.engine.sources.formats.csv_tasks import CsvTaskFormat
from loader.engine.sources.formats.delta_tables import DeltaFormat
from loader.engine.sources.formats.fixed_width import FixedWidthFormat
from loader.engine.sources.formats.json_lines import JsonLinesFormat
from loader.engine.sources.formats.parquet_files import ParquetFormat
from loader.engine.sources.formats.record_files import RecordFormat
from loader.engine.sources.formats.typed_files import OrcFormat
from loader.engine.sources.opened import FileFormat
from metadata.domain.sources import formats as names
from metadata.domain.sources.reading_options import ReadingOptions

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
_CSV_BY_TASKS = CsvTaskFormat()


def reader_of(format_name: str, options: ReadingOptions) -> FileFormat:
    """Return the reader of a source with these options."""
    return _CSV_BY_TASKS if format_name == names.CSV and options.has_other_lines else FORMATS[format_name]
