"""Parquet: files that Spark's reader supports are read by it, other files by tasks with pyarrow.

``loader.readers.records.parquet_columns`` decides by the footers, and pages that show samples read by the same rules.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from loader.contract.refusals import Refusal
from loader.engine.sources.files import DeliveredFile, end_of
from loader.engine.sources.formats.record_files import contents_of
from loader.engine.sources.formats.typed_files import NO_TABLE_HAS, TypedFormat, types_differ, united_names
from loader.engine.sources.opened import Delivered, Group, Layout, Opened, Rows
from loader.readers.records.parquet_columns import ParquetColumn, ParquetFooter, ParquetReading, footer_of_end

_MAGIC, _LENGTH = b"PAR1", 4  # the end of a file: footer, its length, magic number
_FIRST_READ = 1 << 16
_FOOTERS_AT_ONCE = 16
_FILE = T.StructType([T.StructField("path", T.StringType()), T.StructField("content", T.BinaryType())])
_BEFORE = 2  # columns of a task's rows before the values: file and number


class ParquetFormat(TypedFormat):
    """Parquet, whose readers number the rows of a file."""

    has_row_numbers = True

    def __init__(self) -> None:
        # Checksums of pages are verified where a file has them.
        super().__init__("parquet", {"parquet.page.verify-checksum.enabled": "true"})

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            footers = list(pool.map(lambda file: _footer(delivered, file), delivered.files))
        broken = next((footer for footer in footers if isinstance(footer, Refusal)), None)
        if broken is not None and broken.code == "DUPLICATE_COLUMN":
            raise broken
        whole = [footer for footer in footers if not isinstance(footer, Refusal)]
        if broken is not None or all(footer.read_by_spark for footer in whole):
            try:
                return super().layout(delivered, contract)
            except Refusal:
                if broken is not None:
                    raise
        return self._read_by_tasks(dict(zip(delivered.files, whole, strict=True)), contract)

    def rows(self, opened: Opened, group: Group) -> Rows:
        return _rows_of_tasks(opened, group) if group.by_tasks else super().rows(opened, group)

    def _read_by_tasks(self, footers: dict[DeliveredFile, ParquetFooter], contract: tuple[str, ...]) -> Layout:
        """Return the layout of files that tasks read: the columns that the contract names, one type each."""
        types: dict[str, tuple[T.DataType, DeliveredFile]] = {}
        problems: dict[str, tuple[DeliveredFile, str]] = {}
        groups: dict[tuple[str, ...], list[DeliveredFile]] = {}
        spellings: dict[str, str] = {}
        for file, footer in footers.items():
            united = united_names((column.name for column in footer.columns), spellings)
            columns = dict(zip(united, footer.columns, strict=True))
            for name, column in columns.items():
                kind = _spark_type(column)
                if column.problem:
                    problems.setdefault(name, (file, column.problem))
                known, first = types.setdefault(name, (kind, file))
                if isinstance(known, T.NullType):
                    types[name] = (kind, file)
                elif not isinstance(kind, T.NullType) and kind != known:
                    raise types_differ(name, kind, file, known, first)
            names = tuple(name for name, column in columns.items() if not isinstance(_spark_type(column), T.NullType))
            groups.setdefault(names, []).append(file)
        layout = self._layout({name: kind for name, (kind, _) in types.items()}, groups.items(), contract, problems)
        read = (_task_group(group, layout, footers[group.files[0]]) for group in layout.groups)
        return replace(layout, groups=tuple(read))


def _task_group(group: Group, layout: Layout, footer: ParquetFooter) -> Group:
    """Return a group that tasks read, with the columns that are wanted, and what tasks deliver of them."""
    names = tuple(name for name in group.names if name not in layout.unread)
    columns = {column.name.lower(): column for column in footer.columns}
    types = tuple(_plain_type(columns[name.lower()]) for name in names)
    cut = tuple(name for name in names if columns[name.lower()].may_be_cut)
    return replace(group, names=names, by_tasks=True, types=types, cut=cut)


def _footer(delivered: Delivered, file: DeliveredFile) -> ParquetFooter | Refusal:
    """Return the columns of a file, or the refusal of one whose footer pyarrow cannot read."""
    size = min(file.size, _FIRST_READ)
    end = end_of(delivered.spark, file, size)
    needed = int.from_bytes(end[-len(_MAGIC) - _LENGTH : -len(_MAGIC)], "little") + len(_MAGIC) + _LENGTH
    if end[-len(_MAGIC) :] == _MAGIC and size < needed <= file.size:
        end = end_of(delivered.spark, file, needed)
    try:
        return footer_of_end(end, file.shown)
    except Refusal as refusal:
        return refusal


def _spark_type(column: ParquetColumn) -> T.DataType:
    """Return the type that a column declares."""
    if column.type is None:
        return NO_TABLE_HAS
    if column.is_time:
        return T.TimeType()
    return T.NullType() if column.declared == "null" else _plain_type(column)


def _plain_type(column: ParquetColumn) -> T.DataType:
    return from_arrow_type(column.type, prefer_timestamp_ntz=True)


def _rows_of_tasks(opened: Opened, group: Group) -> Rows:
    count = len(group.names)
    values = dict(zip(group.names, (f"c{_BEFORE + place}" for place in range(count)), strict=True))
    marks = dict(zip(group.names, (f"c{_BEFORE + count + place}" for place in range(count)), strict=True))
    fields = [T.StructField("c0", T.StringType()), T.StructField("c1", T.LongType())]
    fields += [T.StructField(values[name], kind) for name, kind in zip(group.names, group.types, strict=True)]
    fields += [T.StructField(marks[name], T.BooleanType()) for name in group.names]
    frame = _in_tasks(opened, group, T.StructType(fields))
    columns = {name: F.col(place) for name, place in values.items()}
    cut = {name: F.col(marks[name]) for name in group.cut}
    for path in group.paths:
        first, *inner = path.split(".")
        columns[path] = reduce(lambda column, name: column.getField(name), inner, F.col(values[first]))
        if first in cut:
            cut[path] = cut[first]
    return Rows(frame, columns, file=F.col("c0"), order=F.col("c1"), cut=cut)


def _in_tasks(opened: Opened, group: Group, schema: T.StructType) -> DataFrame:
    files = opened.spark.createDataFrame(contents_of(opened, group.files), _FILE, verifySchema=False)
    # ``DataFrame.mapInArrow`` needs pandas, though its tasks do not.
    read = UserDefinedFunction(
        ParquetReading(group.names).batches, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    columns = read(*(files[name] for name in files.columns))
    return DataFrame(files._jdf.mapInArrow(columns._jc, False, None), opened.spark)
