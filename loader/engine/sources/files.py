"""Files of a delivery: listing, checks and reading of their first bytes.

Supports every file system of Hadoop, and every compression that Spark recognises by a file's ending.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from pyspark.sql import SparkSession

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.sources.provenance import folder_of, name_below
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import jvm_of
from loader.readers.records import unpacking
from metadata.domain.sources.locations import Location, Roots, parse_location

_LOCAL = "file:"
_GLOB = "{}[]*?\\"
# Folder that Spark and Hadoop keep beside their files until these are complete.
_TEMPORARY = "_temporary"
_BZIP2, _BZIP2_END = ".bz2", 11  # bytes of the end: marker 6, checksum 4, padding 1
_BZIP2_MARKER, _BZIP2_MASK = 0x177245385090, (1 << 48) - 1
_LONGEST_PADDING = 1 << 20  # bytes of the end that are searched for a bzip2 stream before NUL bytes
_ZSTANDARD = ".zst"
_READ_FAILURES = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER", "MALFORMED_CSV_RECORD")
# Message of the refusal that a task in Python raises (``loader.readers.records.unpacking.unreadable``).
_REFUSED_BY_TASK = re.compile(rf"{re.escape(Refusal.__module__)}\.Refusal: (.+) cannot be read: (.+)")
# Reason why Hadoop opens no local file whose name has a colon.
_COLON = "Relative path in absolute URI"
_HIDDEN = ("_", ".")  # files that Spark leaves out: markers of other writers


@dataclass(frozen=True)
class DeliveredFile:
    """One file: full path with scheme, stored size in bytes, time of the last write (ms).

    ``etag`` identifies its content, if the store has one. ``name`` is its path below the source's location.
    """

    path: str
    size: int
    written: int
    etag: str = ""
    name: str = field(default="", compare=False)

    @property
    def shown(self) -> str:
        """Return the path for messages."""
        return shown(self.path)

    @property
    def pattern(self) -> str:
        """Return the path with Spark's wildcard characters escaped."""
        return "".join(f"\\{c}" if c in _GLOB else c for c in self.path)


def shown(path: str) -> str:
    """Return ``path`` for messages: without ``file:`` and without superfluous slashes."""
    return "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def from_uri(uri: str) -> str:
    """Return the path of Spark's ``_metadata.file_path``, spelled as in ``list_files``."""
    path = unquote(uri)
    return "file:" + "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def as_uri(path: str) -> str:
    """Return the URI of a listed path, of which ``from_uri`` returns the path."""
    return quote(path, safe="/:")


def list_files(spark: SparkSession, location: str, roots: Roots) -> list[DeliveredFile]:
    """Return the sorted files at ``location``: one file, all below a folder, or the matches of a pattern.

    All are below one of ``roots``, with links followed. Raise Refusal MISSING_FILE, UNFINISHED_FOLDER,
    BAD_LOCATION, OUTSIDE_ROOTS, or UNREADABLE_FILE if the location cannot be listed.
    """
    listed = _list(spark, location, roots)
    files = [file for name, file in listed if not name.startswith(_HIDDEN)]
    if not files:
        reason = "holds only names beginning with _ or ., which are never read" if listed else "is not there"
        raise Refusal(
            "MISSING_FILE",
            f"{location} {reason}",
            file=location,
            hint="Put the delivery there, or correct the source's location.",
        )
    # A file to which two links lead is one file.
    return sorted({file.path: file for file in files}.values(), key=lambda file: file.path)


def check_unchanged(spark: SparkSession, location: str, roots: Roots, files: tuple[DeliveredFile, ...]) -> None:
    """Raise Refusal CHANGED_FILE unless ``location`` still holds each of these files as listed."""
    current = {file.path: (file.size, file.written) for _, file in _list(spark, location, roots)}
    for file in files:
        if current.get(file.path) != (file.size, file.written):
            raise Refusal(
                "CHANGED_FILE",
                f"{file.shown} was {'written' if file.path in current else 'taken away'} while it was read",
                file=file.shown,
                hint="Load it again when it is whole. A source does best to write under another name and to rename.",
            )


def check_places(location: str, roots: Roots, files: tuple[DeliveredFile, ...]) -> None:
    """Raise Refusal OUTSIDE_ROOTS if one of the files has meanwhile become a link out of the roots."""
    for file in files:
        _real_path(file.path, location, roots)


def _list(spark: SparkSession, location: str, roots: Roots) -> list[tuple[str, DeliveredFile]]:
    """Return (name, file) of every file at ``location``, checked against the roots."""
    checked = checked_location(location, roots)
    folder = checked.removeprefix("file:")
    is_local = os.path.isabs(folder) and os.path.isdir(folder)
    below, files = folder_of(checked), []
    for file in _local_files(folder, location) if is_local else _remote_files(spark, checked, location):
        name = file.path.rsplit("/", 1)[-1]
        is_checked = not (name.startswith(_HIDDEN) or roots.anywhere)
        path = _real_path(file.path, location, roots) if is_checked else file.path
        files.append((name, replace(file, path=path, name=name_below(path, below))))
    return files


def _local_files(folder: str, location: str) -> Iterator[DeliveredFile]:
    """Yield every file below a local folder, as Hadoop lists them: links are followed, broken ones left out.

    Hadoop's own list takes a dozen calls into the JVM for each file.
    """
    waiting, listed = [os.path.normpath(folder)], set()
    while waiting:
        current = waiting.pop()
        real = os.path.realpath(current)
        if real in listed:
            continue
        listed.add(real)
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    if entry.is_dir():
                        if entry.name == _TEMPORARY:
                            raise _unfinished_folder(location)
                        if not entry.name.startswith(_HIDDEN):
                            waiting.append(entry.path)
                    elif (status := _status_of(entry)) is not None:
                        yield DeliveredFile(f"file:{entry.path}", status.st_size, status.st_mtime_ns // 1_000_000)
        except OSError as error:
            raise unpacking.unreadable(location, error.strerror or str(error)) from error


def _status_of(entry: os.DirEntry) -> os.stat_result | None:
    """Return the status of a file; None for a broken link, or a file that was removed meanwhile."""
    try:
        return entry.stat()
    except FileNotFoundError:
        return None


def _remote_files(spark: SparkSession, checked: str, location: str) -> Iterator[DeliveredFile]:
    """Yield the files that Hadoop lists: of an object store, a single file, or the matches of a pattern."""
    try:
        for status in _statuses(spark, checked):
            path = _path_of(status)
            etag = "" if path.startswith("file:") else _etag(spark, status)
            yield DeliveredFile(path, status.getLen(), status.getModificationTime(), etag)
    except JAVA_ERRORS as error:
        raise unreadable(location, error) from error


def checked_location(location: str, roots: Roots) -> str:
    """Return the location with its links followed. Raise Refusal BAD_LOCATION or OUTSIDE_ROOTS."""
    return location if roots.anywhere else str(_check_location(location, roots))


def _check_location(location: str, roots: Roots) -> Location:
    try:
        return roots.check(parse_location(location, folder="/"))
    except MetadataError as problem:
        raise _location_refusal(location, location, problem) from None


def _real_path(path: str, location: str, roots: Roots) -> str:
    """Return the path by which to read a listed file.

    Raise Refusal OUTSIDE_ROOTS, or UNREADABLE_FILE if it is no regular file.
    """
    if not path.startswith("file:"):
        try:
            return roots.check_key(path)
        except MetadataError as problem:
            raise _location_refusal(location, path, problem) from None
    local = path.removeprefix("file:")
    try:
        real = roots.check_file(local)
    except MetadataError as problem:
        raise _location_refusal(location, local, problem) from None
    if os.path.exists(real) and not os.path.isfile(real):
        raise Refusal("UNREADABLE_FILE", f"{local} is no regular file", file=local, hint="Deliver a file.")
    return f"file:{real}"


def _location_refusal(location: str, file: str, problem: MetadataError) -> Refusal:
    return Refusal(
        problem.code.upper(),
        f"{location}: {problem.message}",
        file=file,
        hint="Correct the source's location. An administrator sets ELEVATA_SOURCE_ROOTS.",
    )


def beginning(spark: SparkSession, file: DeliveredFile, size: int) -> bytes:
    """Return the first ``size`` bytes of the uncompressed content. Raise Refusal UNREADABLE_FILE."""
    try:
        with content_of(spark, file) as content:
            return bytes(content.readNBytes(size))
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error


@contextmanager
def content_of(spark: SparkSession, file: DeliveredFile) -> Iterator[Any]:
    """Yield the uncompressed content as a Java stream."""
    path = jvm_of(spark).org.apache.hadoop.fs.Path(file.path)
    configuration = hadoop_configuration(spark)
    with _closing(path.getFileSystem(configuration).open(path)) as stream:
        if file.path.endswith(_ZSTANDARD):  # Hadoop's codec needs a native library, Spark's reader has its own
            yield jvm_of(spark).com.github.luben.zstd.ZstdInputStream(stream)
            return
        codec = jvm_of(spark).org.apache.hadoop.io.compress.CompressionCodecFactory(configuration).getCodec(path)
        yield codec.createInputStream(stream) if codec else stream


def is_compressed(spark: SparkSession, file: DeliveredFile) -> bool:
    """Return True if the file's ending names a compression."""
    path = jvm_of(spark).org.apache.hadoop.fs.Path(file.path)
    codecs = jvm_of(spark).org.apache.hadoop.io.compress.CompressionCodecFactory(hadoop_configuration(spark))
    return codecs.getCodec(path) is not None


def check_ended(spark: SparkSession, file: DeliveredFile) -> None:
    """Raise Refusal UNREADABLE_FILE for a compressed file of 0 bytes, TRUNCATED_FILE for bzip2 without its end marker.

    Hadoop's codecs take 0 bytes for no content, and the one of bzip2 accepts a file that stops between two blocks; the
    other codecs with an end marker report a missing one themselves.
    """
    if not file.size and is_compressed(spark, file):
        raise unpacking.unreadable(file.shown, unpacking.EMPTY)
    if not file.path.endswith(_BZIP2):
        return
    end = end_of(spark, file, _BZIP2_END)
    if end.endswith(b"\0"):
        end = end_of(spark, file, _LONGEST_PADDING)
    if not ends_bzip2(end):
        raise Refusal(
            "TRUNCATED_FILE",
            f"{file.shown} ends before its bzip2 stream does",
            file=file.shown,
            hint="Deliver the whole file again.",
        )


def end_of(spark: SparkSession, file: DeliveredFile, size: int) -> bytes:
    """Return the last ``size`` bytes of a file as they are stored. Raise Refusal UNREADABLE_FILE."""
    start = max(0, file.size - size)
    try:
        if file.path.startswith(_LOCAL):
            with open(file.path.removeprefix(_LOCAL), "rb") as stored:
                stored.seek(start)
                return stored.read()
        path = jvm_of(spark).org.apache.hadoop.fs.Path(file.path)
        with _closing(path.getFileSystem(hadoop_configuration(spark)).open(path)) as stream:
            stream.seek(start)
            return bytes(stream.readNBytes(size))
    except OSError as error:
        raise unpacking.unreadable(file.shown, error.strerror or str(error)) from error
    except JAVA_ERRORS as error:
        raise unreadable(file.shown, error) from error


def ends_bzip2(end: bytes) -> bool:
    """Return True if these last bytes are bzip2's end marker, a 32-bit checksum, and padding of bits and NUL bytes."""
    stream = end.rstrip(b"\0")
    # The checksum may itself end with NUL bytes.
    for size in range(len(stream), min(len(end), len(stream) + _BZIP2_END) + 1):
        number = int.from_bytes(end[max(0, size - _BZIP2_END) : size], "big")
        if any(number >> (32 + filled) & _BZIP2_MASK == _BZIP2_MARKER for filled in range(8)):
            return True
    return False


@contextmanager
def _closing(stream: Any) -> Iterator[Any]:
    try:
        yield stream
    finally:
        stream.close()


@contextmanager
def whole_files(spark: SparkSession) -> Iterator[None]:
    """Make Spark read files unsplit within the context, so that row order is the order in the file."""
    settings = {"spark.sql.files.maxPartitionBytes": str(1 << 50), "spark.sql.files.minPartitionNum": "1"}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


def is_read_failure(error: Exception) -> bool:
    """Return True for Spark's exceptions for bytes that do not match a file's format, and those of tasks that read."""
    return any(name in str(error) for name in _READ_FAILURES) or _REFUSED_BY_TASK.search(str(error)) is not None


def unreadable(file: str, error: Exception) -> Refusal:
    """Return the refusal for a file that cannot be read: broken compression, no permission, unknown scheme."""
    if refused := _REFUSED_BY_TASK.search(str(error)):
        return unpacking.unreadable(*refused.groups())
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    reason = cause.toString() if cause is not None else next(iter(str(error).splitlines()), type(error).__name__)
    if "OutOfMemoryError" in reason:
        return Refusal(
            "OUT_OF_MEMORY",
            f"{file} cannot be read with the memory of the runner: {reason}",
            file=file,
            hint="Deliver it in smaller files, or give the runner more memory (ELEVATA_DRIVER_MEMORY).",
        )
    if _COLON in reason:
        return Refusal(
            "UNREADABLE_FILE",
            f"{file} cannot be read: its name has a colon",
            file=file,
            hint="Deliver it under another name: Hadoop, by which Spark reads files, takes no colon.",
        )
    return unpacking.unreadable(file, reason)


def _statuses(spark: SparkSession, location: str):
    """Yield Hadoop's status of every file at ``location``; a name is a pattern only if no file has it."""
    path = jvm_of(spark).org.apache.hadoop.fs.Path(location)
    system = path.getFileSystem(hadoop_configuration(spark))
    statuses = [system.getFileStatus(path)] if system.exists(path) else system.globStatus(path) or []
    for status in statuses:
        if status.isFile():
            yield status
            continue
        if system.exists(jvm_of(spark).org.apache.hadoop.fs.Path(status.getPath(), _TEMPORARY)):
            raise _unfinished_folder(location)
        below = system.listFiles(status.getPath(), True)
        root = len(status.getPath().toString().rstrip("/")) + 1
        while below.hasNext():
            inner = below.next()
            folders = inner.getPath().toString()[root:].split("/")[:-1]
            if _TEMPORARY in folders:
                raise _unfinished_folder(location)
            if not any(folder.startswith(_HIDDEN) for folder in folders):
                yield inner


def _unfinished_folder(location: str) -> Refusal:
    return Refusal(
        "UNFINISHED_FOLDER",
        f"{location} holds a folder {_TEMPORARY}: its writer has not finished, or died",
        file=location,
        hint=f"Load it when the writer is done. If it died, write the folder again, or remove {_TEMPORARY}.",
    )


def is_one_file(spark: SparkSession, location: str) -> bool:
    """Return True if the location is a single file, not a folder or pattern."""
    try:
        path = jvm_of(spark).org.apache.hadoop.fs.Path(location)
        system = path.getFileSystem(hadoop_configuration(spark))
        return system.exists(path) and system.getFileStatus(path).isFile()
    except JAVA_ERRORS as error:
        raise unreadable(location, error) from error


def _etag(spark: SparkSession, status) -> str:
    """Return the ETag of a file's content, empty for file systems without one."""
    etag_source = jvm_of(spark).java.lang.Class.forName("org.apache.hadoop.fs.EtagSource")
    return (status.getEtag() or "") if etag_source.isInstance(status) else ""


def _path_of(status) -> str:
    path = status.getPath().toString()
    return "file:" + "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return the configuration of Hadoop's file systems in a session."""
    return spark._jsparkSession.sessionState().newHadoopConf()
