"""Lines of text files, with the places of faulty ones."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from elevata.core.words import counted
from loader.domain.refusals import Refusal
from loader.spark.sources.files import DeliveredFile, from_uri, shown, whole_files

SAMPLES = 5
_SAMPLE_LENGTH = 80  # characters


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
        starts = dict(numbered.groupBy("file").agg(F.min("order")).collect())
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


def encoding_hint(encoding: str) -> str:
    """Return what to do about bytes that are invalid in a source's encoding."""
    return f"Set the option encoding of the source to the file's encoding, or deliver the file in {encoding}."
