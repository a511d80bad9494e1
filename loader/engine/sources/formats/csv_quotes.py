"""Check of CSV quotes: every opening quote is closed, with a delimiter or line end before it and after the closing one.

Spark's parser is lenient in both: it accepts the end of the file as the end of a quoted field, so that one
missing quote swallows all following rows, and it continues after a quote that closes too early. Therefore
every file is read once more by the same parser with strict settings, as a stream in parallel to Spark's own
reading. A record that no delivery contains is appended: the parser rejects it (too many columns) unless an
open quote has swallowed it.

The parser takes a quote inside of a field that does not begin with one as part of the value, so the text itself is
scanned for these (``loader.domain.sources.csv_quotes``): they refuse the delivery, or are named by a warning if the
source declares them. Without a quote or an escape, Spark's parser takes a noncharacter for it, which no
file may contain.
"""

import codecs
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from loader.contract.refusals import Refusal
from loader.domain.sources.csv_quotes import NO_QUOTE, QuoteScanner, has_no_quote, reserved_character
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import gateway_of, jvm_of
from loader.engine.sources.files import DeliveredFile, content_of, unreadable
from loader.engine.sources.formats.csv_files import CsvFormat, reading_options
from loader.engine.sources.opened import Group, Opened
from loader.readers.records.readers import LOCAL
from loader.readers.records.unpacking import UNREADABLE, unpacked
from metadata.domain.sources.option_kinds import REFUSE

_PIECE = 1 << 20  # bytes
SIDE_BY_SIDE = 2  # Spark's own tasks need the other processors
# Spark's reader takes 20480 columns.
_MOST_COLUMNS = 20_481
# The parser's messages for too many columns in a record, too many characters in a field, and a stray quote.
_OUT_OF_BOUNDS, _STRAY_QUOTE = "java.lang.ArrayIndexOutOfBoundsException", "Unescaped quote character"
_HINT = "A quote inside a quoted field must be escaped, and each quoted field be closed."


@contextmanager
def checked_quotes(opened: Opened) -> Iterator[list[str]]:
    """Check the quotes of a CSV delivery while the caller reads it; the yielded list has the warnings afterwards.

    Raise Refusal UNCLOSED_QUOTE, STRAY_QUOTE, UNREADABLE_ROW or UNREADABLE_FILE, also in place of the
    caller's exception, since swallowed rows cause further errors.
    """
    if not isinstance(opened.reader, CsvFormat):
        yield []
        return
    warnings: list[str] = []
    files = [(file, group.separator) for group in opened.groups for file in group.files]
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(files)), thread_name_prefix="quotes") as pool:
        checks: list[Future[None]] = []
        scans: list[Future[str]] = []
        if has_no_quote(opened.options.quote, opened.options.escape):
            checks += [pool.submit(_check_characters, opened, file, separator) for file, separator in files]
        if opened.options.quote:
            checks += [pool.submit(_check_file, opened, file, separator) for file, separator in files]
            scans += [pool.submit(_scan_file, opened, file, group) for group in opened.groups for file in group.files]
        try:
            yield warnings
        finally:
            for check in checks:
                check.result()
            results = [scan.result() for scan in scans]
            warnings += [warning for warning in results if warning][:1]


def _check_characters(opened: Opened, file: DeliveredFile, separator: str | None) -> None:
    """Raise Refusal UNREADABLE_ROW for the noncharacter that Spark's parser takes for a quote or an escape."""
    line_end, lines = "\r" if separator == "\r" else "\n", 1
    for text in _texts(opened, file):
        if (place := text.find(NO_QUOTE)) >= 0:
            raise reserved_character(file.shown, lines + text.count(line_end, 0, place))
        lines += text.count(line_end)


def _check_file(opened: Opened, file: DeliveredFile, separator: str | None) -> None:
    parser = _parser(opened, separator)
    try:
        _parse(opened, parser, file, (separator or "\r\n") + opened.options.delimiter * _MOST_COLUMNS)
    except JAVA_ERRORS as error:
        failure: Any = getattr(error, "java_exception", None)  # Any: an exception of Java
        message = str(failure.getMessage()) if failure is not None else str(error)
        if message.startswith(_OUT_OF_BOUNDS):
            if failure.getColumnIndex() >= _MOST_COLUMNS - 1:
                return
            code, wrong = "UNCLOSED_QUOTE", "a field of the record that begins here is too long: is its quote closed?"
        elif _STRAY_QUOTE in message:
            code, wrong = "STRAY_QUOTE", "text follows a quote that closes a field"
        else:
            raise unreadable(file.shown, error) from error
        line = _line_of_record(opened, file, separator, failure.getRecordNumber() + 1)
        raise _quote_refusal(code, file, line, wrong) from error
    line = _line_of_record(opened, file, separator, parser.getContext().currentRecord())
    raise _quote_refusal(
        "UNCLOSED_QUOTE", file, line, "a quote that opens in the record that begins here is never closed"
    )


def _scan_file(opened: Opened, file: DeliveredFile, group: Group) -> str:
    """Return the warning about the first quote inside of a field that does not begin with one; empty if there is none.

    Raise Refusal STRAY_QUOTE instead, unless the source keeps such quotes.
    """
    options = opened.options
    line_end = "\r" if group.separator == "\r" else "\n"
    scanner = QuoteScanner(delimiter=options.delimiter, quote=options.quote, escape=options.escape, line_end=line_end)
    for text in _texts(opened, file):
        if (quote := scanner.feed(text)) is not None:
            if options.quotes_inside == REFUSE:
                raise quote.refusal(file.shown, group.names)
            return quote.warning(file.shown, group.names)
    return ""


def _texts(opened: Opened, file: DeliveredFile) -> Iterator[str]:
    """Yield the text of a file in pieces, without a byte order mark."""
    decoder = codecs.getincrementaldecoder(opened.options.encoding)("replace")
    is_first = True
    for piece in _pieces(opened, file):
        text = decoder.decode(piece)
        yield text.removeprefix("\ufeff") if is_first else text
        is_first = is_first and not text
    yield decoder.decode(b"", final=True)


def _pieces(opened: Opened, file: DeliveredFile) -> Iterator[bytes]:
    try:
        if file.path.startswith(LOCAL):
            with open(file.path.removeprefix(LOCAL), "rb") as stored:
                content = unpacked(stored, file.path)
                while piece := content.read(_PIECE):
                    yield bytes(piece)
            return
        with content_of(opened.spark, file) as stream:
            while piece := bytes(stream.readNBytes(_PIECE)):
                yield piece
    except (*JAVA_ERRORS, *UNREADABLE) as error:
        raise unreadable(file.shown, error) from error


def _parser(opened: Opened, separator: str | None, records: int | None = None) -> Any:
    """Return Spark's CSV parser with strict quotes; it stores no values."""
    spark = opened.spark
    options = reading_options(opened.options, separator) | {"unescapedQuoteHandling": "RAISE_ERROR"}
    del options["encoding"]  # the parser reads characters
    parser = _package(spark, "com.univocity.parsers")
    csv = _package(spark, "org.apache.spark.sql.catalyst.csv")
    scala_options = jvm_of(spark).org.apache.spark.api.python.PythonUtils.toScalaMap(options)
    settings = csv.CSVOptions(scala_options, False, "UTC").asParserSettings()
    settings.setMaxColumns(_MOST_COLUMNS - 1)
    settings.selectIndexes(gateway_of(spark).new_array(jvm_of(spark).java.lang.Integer, 0))
    settings.setProcessor(parser.common.processor.core.NoopProcessor.instance)
    if records is not None:
        settings.setNumberOfRecordsToRead(records)
    return parser.csv.CsvParser(settings)


def _package(spark: SparkSession, name: str) -> Any:
    package: Any = jvm_of(spark)
    for part in name.split("."):
        package = getattr(package, part)
    return package


def _parse(opened: Opened, parser: Any, file: DeliveredFile, after: str) -> None:
    """Parse the file's text and ``after``."""
    jvm = jvm_of(opened.spark)
    with content_of(opened.spark, file) as stream:
        texts = gateway_of(opened.spark).new_array(jvm.java.io.Reader, 2)
        texts[0] = _characters(opened, stream)
        texts[1] = jvm.java.io.StringReader(after)
        parser.parse(jvm.org.apache.commons.io.input.SequenceReader(texts))


def _line_of_record(opened: Opened, file: DeliveredFile, separator: str | None, record: int) -> int:
    """Return the line on which a record begins (``record`` counts from 1).

    The parser itself does not count lines inside quotes.
    """
    if record <= 1:
        return 1
    parser = _parser(opened, separator, records=record - 1)
    _parse(opened, parser, file, "")
    with content_of(opened.spark, file) as stream:
        lines = jvm_of(opened.spark).java.io.LineNumberReader(_characters(opened, stream))
        lines.skip(parser.getContext().currentChar())
        return lines.getLineNumber() + 1


def _characters(opened: Opened, stream: Any) -> Any:
    """Return a Java reader over the stream's text without a byte order mark."""
    return jvm_of(opened.spark).com.univocity.parsers.common.ArgumentUtils.newReader(stream, opened.options.encoding)


def _quote_refusal(code: str, file: DeliveredFile, line: int, message: str) -> Refusal:
    return Refusal(code, f"{file.shown}, line {line}: {message}", file=file.shown, row=line, hint=_HINT)
