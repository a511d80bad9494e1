"""Lines of text files, with the places of faulty ones."""

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.sources.csv_quotes import NO_QUOTE
from loader.domain.sources.encodings import encoding_hint
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import jvm_of
from loader.engine.sources.files import (
    DeliveredFile,
    beginning,
    content_of,
    from_uri,
    is_compressed,
    shown,
    unreadable,
    whole_files,
)

# Spark holds whole lines in memory.
LONGEST_LINE = 16_000_000  # characters
# Noncharacter, as NO_QUOTE, so that the parser finds neither fields nor quotes in a line.
_NO_DELIMITER = "\ufffe"
SAMPLES = 5
_SAMPLE_LENGTH = 80  # characters


def check_line_lengths(spark: SparkSession, file: DeliveredFile, encoding: str) -> None:
    """Raise Refusal LONG_LINE for a line that Spark must not read, since it could fill the memory of all runs.

    A file that is as small as one line is not read for this, unless it is compressed.
    """
    if file.size <= LONGEST_LINE and not is_compressed(spark, file):
        return
    parser = _line_parser(spark, "\n" if b"\n" in beginning(spark, file, 1 << 20) else "\r")
    try:
        with content_of(spark, file) as stream:
            parser.parse(jvm_of(spark).com.univocity.parsers.common.ArgumentUtils.newReader(stream, encoding))
    except JAVA_ERRORS as error:
        failure = getattr(error, "java_exception", None)
        if failure is None or "exceeds the maximum number of characters" not in str(failure.getMessage()):
            raise unreadable(file.shown, error) from error
        line = failure.getRecordNumber() + 1
        raise Refusal(
            "LONG_LINE",
            f"{file.shown}, line {line}: the line has more than {LONGEST_LINE:,} characters",
            file=file.shown,
            row=line,
            hint="Deliver it with line ends, or in another format. Does another character end its lines?",
        ) from error


def _line_parser(spark: SparkSession, separator: str) -> Any:
    """Return a parser that reads lines one by one and keeps none; a longer one than LONGEST_LINE is an error."""
    parsers = jvm_of(spark).com.univocity.parsers
    settings = parsers.csv.CsvParserSettings()
    style = settings.getFormat()
    style.setLineSeparator(separator)
    style.setNormalizedNewline("\n")
    style.setDelimiter(_NO_DELIMITER)
    for set_sign in (style.setQuote, style.setQuoteEscape, style.setComment):
        set_sign(NO_QUOTE)
    settings.setMaxCharsPerColumn(LONGEST_LINE)
    settings.setSkipEmptyLines(False)
    settings.setIgnoreLeadingWhitespaces(False)
    settings.setIgnoreTrailingWhitespaces(False)
    settings.setProcessor(parsers.common.processor.core.NoopProcessor.instance)
    return parsers.csv.CsvParser(settings)


def text_lines(spark: SparkSession, files: tuple[DeliveredFile, ...], separator: str | None = None) -> DataFrame:
    """Return the lines as column ``value``, with their bytes unchanged.

    ``separator`` is the byte that ends a line as an ASCII character, by default LF, CR or both.
    """
    return spark.read.text([file.pattern for file in files], lineSep=separator)


def first_lines(
    spark: SparkSession, files: tuple[DeliveredFile, ...], wrong: Column
) -> tuple[str, int, tuple[str, ...]]:
    """Return file and number of the first ``wrong`` line, and the beginnings of the first few."""
    with whole_files(spark):
        numbered = text_lines(spark, files).select(
            "value", F.col("_metadata.file_path").alias("file"), F.monotonically_increasing_id().alias("order")
        )
        starts: dict[str, int] = dict(map(tuple, numbered.groupBy("file").agg(F.min("order")).collect()))
        text = F.left(F.make_valid_utf8("value"), F.lit(_SAMPLE_LENGTH))
        rows = numbered.where(wrong).orderBy("file", "order").select("file", "order", text).limit(SAMPLES).collect()
    places = [(shown(from_uri(file)), order - starts[file] + 1, text) for file, order, text in rows]
    samples = tuple(f"line {number}: {text}" for _, number, text in places)
    return places[0][0], places[0][1], samples


def wrong_encoding(
    encoding: str, count: int, file: str, line: int, samples: tuple[str, ...], *, hint: str = ""
) -> Refusal:
    """Return the refusal for bytes that are invalid in the source's encoding; ``hint`` if it has no such option."""
    return Refusal(
        "WRONG_ENCODING",
        f"{file}, line {line}: cannot be decoded as {encoding}; {counted(count, 'line')} in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint=hint or encoding_hint(encoding),
    )
