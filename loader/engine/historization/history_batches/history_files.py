"""Readers of history batch files: CSV, plain or compressed with zstd, Parquet, and rows of JSON values.

CSV files have a header, and every field is text: a quoted empty field is an empty text, an unquoted one NULL. The
history policy defines the format of values, and the markers for NULL and "as before" (``file_batches``). The JVM
unpacks compressed files into a folder of the warehouse, which every machine of a cluster can read; the folder is
removed after the batch.

Refusals are those of a delivery (``loader.engine.sources.deliveries``) and

=================  ===========================================================================
UNKNOWN_COLUMN     a column that the dataset does not have
TRUNCATED_FILE     a zstd stream that ends early
=================  ===========================================================================
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.contract.manifest.loads import HistoryFiles, RawcoreLoad
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.reference.batch_files import DELETE, END, FILES
from loader.engine.expressions import united
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.nested_values import json_of
from loader.engine.pyspark_types import jvm_of
from loader.engine.session import persisted, source_roots
from loader.engine.sources.checks.row_faults import refuse_faults
from loader.engine.sources.delivery_reading import missing_columns, open_delivery
from loader.engine.sources.files import list_files, shown, unreadable
from loader.engine.sources.opened import Opened
from metadata.domain.history.history_policy import BATCH_FILE_COLUMNS, HistoryPolicy
from metadata.domain.sources.locations import ANYWHERE, Roots, parse_location
from metadata.domain.types import BINARY, parse

NESTED = (T.StructType, T.ArrayType, T.MapType, T.VariantType)
CSV, PARQUET, ZSTD = "csv", "parquet", "zstd"
INCOMING = ".incoming"
_CHUNK = 1 << 20
# Messages of zstd for a stream that ends early.
_TRUNCATED = ("Truncated source", "Read error or truncated source", "Stream end")


@contextmanager
def read_history_files(
    session: SparkSession, warehouse: str, load: RawcoreLoad, run_id: str
) -> Iterator[dict[str, DataFrame]]:
    """Yield the files as frames of text, by kind; a kind without files has a frame without columns.

    Raise Refusal.
    """
    files = load.files or HistoryFiles()
    folder = f"{warehouse.rstrip('/')}/{INCOMING}/{run_id}"
    with ExitStack() as resources:
        if files.compression == ZSTD:
            resources.callback(_remove, session, folder)
            _remove(session, folder)  # files of a killed attempt
        yield {kind: _files_frame(session, load, files, kind, folder, resources) for kind in FILES}


def _files_frame(
    session: SparkSession, load: RawcoreLoad, files: HistoryFiles, kind: str, folder: str, resources: ExitStack
) -> DataFrame:
    frames = []
    for place, location in enumerate(getattr(files, kind)):
        reader = _Reader(session, load, files, kind, resources)
        roots = source_roots(session).with_asked(parse_location(location, folder="/"))
        if files.compression == ZSTD:
            for number, file in enumerate(list_files(session, location, roots)):
                plain = f"{folder}/{kind}-{place}-{number}.csv"
                unpack(session, file.path, plain)
                frames.append(reader.read(plain, ANYWHERE, file.shown))
        else:
            frames.append(reader.read(location, roots))
    if not frames:
        return as_rows(session, [])
    return united(frames, partial(DataFrame.unionByName, allowMissingColumns=True))


@dataclass(frozen=True)
class _Reader:
    """Reader for the files of one kind."""

    session: SparkSession
    load: RawcoreLoad
    files: HistoryFiles
    kind: str
    resources: ExitStack

    def read(self, location: str, roots: Roots, instead_of: str = "") -> DataFrame:
        """Return the checked file with every column as text; messages name ``instead_of`` if it is given."""
        try:
            return self._read(location, roots)
        except Refusal as refusal:
            if instead_of:
                _rename(refusal, shown(location), instead_of)
            raise

    def _read(self, location: str, roots: Roots) -> DataFrame:
        options = {"empty_is_null": False} if self.files.format == CSV else {}
        dated = F.lit(self.files.dated).cast("string").alias(self._time)
        name = f"the {self.kind} file"
        opened = open_delivery(self.session, name, location, self.files.format, options, roots=roots)
        self._check_columns(opened)
        frame = persisted(opened.frame(numbered=True), StorageLevel.MEMORY_AND_DISK_DESER)
        self.resources.callback(frame.unpersist)
        try:
            checked = refuse_faults(opened, frame, SourceSpec(name, location, self.files.format, (), options))
        except JAVA_ERRORS as error:
            raise unreadable(opened.shown, error) from error
        frame = frame.where(~opened.is_empty_record) if checked.empty else frame
        columns = (self._marked_text(opened, frame, name).alias(self._name(name)) for name in opened.names)
        return frame.select(*columns, *(() if self._has_time(opened) else (dated,)))

    def _name(self, name: str) -> str:
        """Return the dataset's name of a column in the file."""
        return self.files.names.get(name, name)

    @property
    def _time(self) -> str:
        return END if self.kind == DELETE else HistoryPolicy.from_dict(self.load.policy).time

    def _has_time(self, opened: Opened) -> bool:
        return self.files.dated is None or self._time in opened.names

    def _check_columns(self, opened: Opened) -> None:
        described = self.load.leading.of_purpose("business_key", "attribute")
        columns = {column.name for column in described} | set(BATCH_FILE_COLUMNS)
        unknown = [name for name in opened.names if self._name(name) not in columns]
        if unknown:
            raise Refusal(
                "UNKNOWN_COLUMN",
                f"{opened.shown} holds {'a column' if len(unknown) == 1 else 'columns'} that {self.load.name} "
                f"does not know: {', '.join(unknown[:5])}",
                file=opened.files[0].shown,
                column=unknown[0],
                count=len(unknown),
                samples=tuple(unknown[:5]),
                hint="Take it into the metadata first, or leave it out of the file.",
            )
        file_names = {dataset: file for file, dataset in self.files.names.items()}
        keys = [column.name for column in self.load.leading.of_purpose("business_key")]
        wanted = (*keys, self._time) if self._has_time(opened) else keys
        missing_columns(opened, tuple(file_names.get(name, name) for name in wanted))

    def _marked_text(self, opened: Opened, frame: DataFrame, name: str) -> Column:
        """Return a value as text, with a digit below microseconds if the reader cut some, so that they are counted."""
        text = self._text(opened, name)
        if not opened.marks_cut(frame, name) or isinstance(opened.type_of(name), NESTED):
            return text
        is_time = isinstance(opened.type_of(name), T.TimeType)
        length = len("hh:mm:ss.ffffff") if is_time else len("yyyy-mm-dd hh:mm:ss.ffffff")
        with_point = F.when(F.contains(text, F.lit(".")), text).otherwise(F.concat(text, F.lit(".")))
        return F.when(opened.cut(name), F.concat(F.rpad(with_point, length, "0"), F.lit("1"))).otherwise(text)

    def _text(self, opened: Opened, name: str) -> Column:
        if opened.is_text:
            return opened.column(name)
        types = {column.name: parse(column.type).name for column in self.load.leading.columns}
        return as_text(opened.column(name), opened.type_of(name), types.get(self._name(name)) == BINARY)


def as_text(column: Column, type_: T.DataType, as_hex: bool) -> Column:
    """Return a typed value as text that converts back to it (``loader.engine.expressions``)."""
    if isinstance(type_, T.FloatType):
        return column.cast("double").cast("string")
    if isinstance(type_, T.BinaryType):
        return F.hex(column) if as_hex else column.cast("string")
    if isinstance(type_, NESTED):
        return json_of(column, type_)
    return column.cast("string")


def unpack(session: SparkSession, packed: str, plain: str) -> None:
    """Decompress the zstd file ``packed`` to ``plain`` within the JVM.

    Raise Refusal TRUNCATED_FILE or UNREADABLE_FILE.
    """
    jvm = jvm_of(session)
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    source, target = jvm.org.apache.hadoop.fs.Path(packed), jvm.org.apache.hadoop.fs.Path(plain)
    with ExitStack() as streams:
        try:
            stored = source.getFileSystem(configuration).open(source)
            streams.callback(stored.close)
            content = jvm.com.github.luben.zstd.ZstdInputStream(stored)
            streams.callback(content.close)
            written = target.getFileSystem(configuration).create(target, True)
            streams.callback(written.close)
            jvm.org.apache.hadoop.io.IOUtils.copyBytes(content, written, _CHUNK, False)
        except JAVA_ERRORS as error:
            if any(message in str(error) for message in _TRUNCATED):
                raise Refusal(
                    "TRUNCATED_FILE",
                    f"{shown(packed)} ends in the middle of its zstd stream",
                    file=shown(packed),
                    hint="Send the whole file again.",
                ) from error
            raise unreadable(shown(packed), error) from error


def _remove(session: SparkSession, folder: str) -> None:
    path = jvm_of(session).org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def _rename(refusal: Refusal, path: str, instead: str) -> None:
    """Replace the unpacked file's path in a refusal with the path of the delivered file."""
    names: Mapping[str, str] = {name: getattr(refusal, name) for name in ("message", "file", "hint")}
    for name, text in names.items():
        setattr(refusal, name, text.replace(path, instead))
    for fault in refusal.faults:
        if fault is not refusal:
            _rename(fault, path, instead)


def as_rows(session: SparkSession, rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...] = ()) -> DataFrame:
    """Return rows of JSON values as a frame of text columns. Values other than text are converted to JSON."""
    rows = list(rows)
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    schema = T.StructType([T.StructField(name, T.StringType()) for name in names])
    if not names or not rows:
        return session.createDataFrame([], schema)
    # A literal, because a frame created from Python rows needs a Python process on every machine.
    text = json.dumps([{name: _text(row.get(name)) for name in names} for row in rows], ensure_ascii=False)
    rows_type = T.ArrayType(schema)
    return session.range(1).select(F.inline(F.from_json(F.lit(text), rows_type.json())))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
