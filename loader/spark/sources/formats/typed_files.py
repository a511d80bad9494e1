"""Files that have their own types, read by a data source of Spark: Parquet."""

from pyspark.sql import DataFrame

from loader.spark.sources.files import JAVA_ERRORS, unreadable
from loader.spark.sources.opened import Delivered, FileFormat, Group, Layout, Opened, Rows, attribute


class TypedFormat(FileFormat):
    """Format of a data source of Spark; ``mergeSchema`` unites the columns of several files."""

    is_text = False

    def __init__(self, source: str, **options: bool):
        self._source, self._options = source, options

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        files = delivered.files
        try:
            schema = self._read(delivered, [file.pattern for file in files]).schema
        except JAVA_ERRORS as error:
            raise unreadable(files[0].shown, error) from error
        names = tuple(field.name for field in schema)
        return Layout(names, tuple(field.dataType for field in schema), (Group(files, names),))

    def rows(self, opened: Opened, group: Group) -> Rows:
        frame = self._read(opened, group.patterns)
        return Rows(frame, {name: attribute(name) for name in group.names})

    def _read(self, delivered: Delivered, paths: list[str]) -> DataFrame:
        options = {name: value and len(delivered.files) > 1 for name, value in self._options.items()}
        return delivered.spark.read.format(self._source).options(**options).load(paths)
