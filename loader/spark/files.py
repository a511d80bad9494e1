"""The files of a delivery: which they are, and how the first of them begin.

Any file system that Hadoop knows, and any compression that Spark reads by a file's ending.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.core.context import Py4JError  # of pyspark's bridge: exceptions it does not translate
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from loader.domain.refusals import Refusal

# What a call into the JVM raises: pyspark translates the exceptions it knows.
JAVA_ERRORS = (Py4JError, PySparkException)

_GLOB = "{}[]*?\\"
_HIDDEN = ("_", ".")  # what Spark leaves out: markers of other writers


@dataclass(frozen=True)
class DeliveredFile:
    """One file: its full path with scheme, how many bytes it has as stored, when it was last written (ms)."""

    path: str
    size: int
    written: int

    @property
    def shown(self) -> str:
        """The path as a person writes it."""
        return shown(self.path)

    @property
    def pattern(self) -> str:
        """The path with what Spark would take for a wildcard made plain."""
        return "".join(f"\\{c}" if c in _GLOB else c for c in self.path)


def shown(path: str) -> str:
    """``path`` without ``file:``, and with no more slashes than a person writes."""
    return "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def from_uri(uri: str) -> str:
    """The path that Spark's ``_metadata.file_path`` means: the same spelling as ``list_files``."""
    path = unquote(uri)
    return "file:" + "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def list_files(spark: SparkSession, location: str) -> list[DeliveredFile]:
    """The files at ``location``: one file, all below a folder, or what a pattern matches; sorted.

    Raises Refusal MISSING_FILE, or UNREADABLE_FILE where the place itself cannot be asked.
    """
    try:
        statuses = list(_statuses(spark, location))
    except JAVA_ERRORS as error:
        raise unreadable(location, error) from error
    files = [DeliveredFile(_spelled(status), status.getLen(), status.getModificationTime()) for status in statuses]
    taken = [file for file in files if not file.path.rsplit("/", 1)[-1].startswith(_HIDDEN)]
    if not taken:
        because = "holds only names beginning with _ or ., which are never read" if files else "is not there"
        raise Refusal(
            "MISSING_FILE",
            f"{location} {because}",
            file=location,
            hint="Put the delivery there, or correct the source's location.",
        )
    return sorted(taken, key=lambda file: file.path)


def check_unchanged(spark: SparkSession, location: str, files: tuple[DeliveredFile, ...]) -> None:
    """Refusal CHANGED_FILE if ``location`` no longer holds each of these files as it was listed."""
    try:
        now = {
            _spelled(status): (status.getLen(), status.getModificationTime()) for status in _statuses(spark, location)
        }
    except JAVA_ERRORS as error:
        raise unreadable(location, error) from error
    for file in files:
        if now.get(file.path) != (file.size, file.written):
            raise Refusal(
                "CHANGED_FILE",
                f"{file.shown} was {'written' if file.path in now else 'taken away'} while it was read",
                file=file.shown,
                hint="Load it again when it is whole. A source does best to write under another name and to rename.",
            )


def beginning(spark: SparkSession, file: DeliveredFile, size: int) -> bytes:
    """The first ``size`` bytes of what the file holds, unpacked. Raises Refusal UNREADABLE_FILE."""
    try:
        path = spark._jvm.org.apache.hadoop.fs.Path(file.path)
        configuration = _configuration(spark)
        stream = path.getFileSystem(configuration).open(path)
        try:
            codec = spark._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(configuration).getCodec(path)
            return bytes((codec.createInputStream(stream) if codec else stream).readNBytes(size))
        finally:
            stream.close()
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error


@contextmanager
def whole_files(spark: SparkSession) -> Iterator[None]:
    """Inside, Spark reads no file in pieces, so that an order of rows is their order in the file."""
    settings = {"spark.sql.files.maxPartitionBytes": str(1 << 50), "spark.sql.files.minPartitionNum": "1"}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def unreadable(file: str, error: Exception) -> Refusal:
    """A file that is there but cannot be read: broken compression, no permission, no such scheme."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    reason = cause.toString() if cause is not None else str(error).splitlines()[0]
    return Refusal(
        "UNREADABLE_FILE",
        f"{file} cannot be read: {reason[:300]}",
        file=file,
        hint="Check that the file is whole, that its ending says how it is packed, and who may read it.",
    )


def _statuses(spark: SparkSession, location: str):
    """Hadoop's description of every file at ``location``. A name is a pattern only if no file has it."""
    path = spark._jvm.org.apache.hadoop.fs.Path(location)
    system = path.getFileSystem(_configuration(spark))
    if location.startswith("file:") and not system.exists(path):
        path = spark._jvm.org.apache.hadoop.fs.Path(unquote(location))  # a URI proper: %20 is a blank
    found = [system.getFileStatus(path)] if system.exists(path) else system.globStatus(path) or []
    for status in found:
        if status.isFile():
            yield status
            continue
        below = system.listFiles(status.getPath(), True)
        root = len(status.getPath().toString().rstrip("/")) + 1
        while below.hasNext():
            inner = below.next()
            folders = inner.getPath().toString()[root:].split("/")[:-1]
            if not any(folder.startswith(_HIDDEN) for folder in folders):
                yield inner


def _spelled(status) -> str:
    path = status.getPath().toString()
    return "file:" + "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def _configuration(spark: SparkSession):
    return spark._jsparkSession.sessionState().newHadoopConf()
