"""Line checks of JSON lines: each must be one object, and its keys are collected.

Spark's JSON reader preserves the literal text of values, but ignores keys it was not asked for and any text
after an object on its line. So the lines are first read once as text.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain.runs.refusals import Refusal
from loader.spark.sources.files import DeliveredFile, from_uri, shown, whole_files

SAMPLES = 5
_SAMPLE_LENGTH = 80  # characters


def keys_of_lines(spark: SparkSession, files: tuple[DeliveredFile, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return every key of every object: the wanted ones first, then the others by name.

    If there are no lines, the wanted keys count as delivered. Raise Refusal WRONG_ENCODING, BAD_JSON or
    DUPLICATE_COLUMN with line numbers.
    """
    lines = text_lines(spark, files)
    line = F.trim(F.col("value"), F.lit(" \t\r"))
    keys = F.json_object_keys(line)
    checks = {
        "invalid": ~F.is_valid_utf8("value"),
        "bad": ~F.coalesce(_is_one_object(line), F.lit(False)),
        "twice": F.size(F.array_distinct(keys)) < F.size(keys),
    }
    # Mostly there is one set of keys, so it is collected as a set of sets.
    seen = F.collect_set(F.array_sort(F.array_distinct(keys)))
    found = (
        lines.where(line != "")
        .agg(F.count(F.lit(1)).alias("rows"), seen.alias("seen"), *(F.count_if(c).alias(n) for n, c in checks.items()))
        .first()
    )
    for check, describe in (("invalid", _wrong_encoding), ("bad", _bad_json), ("twice", _key_twice)):
        if found[check]:
            raise describe(found[check], *first_lines(spark, files, checks[check] & (line != "")))
    delivered = {key for keys in found["seen"] for key in keys}
    first = tuple(name for name in wanted if name in delivered or not found["rows"])
    return first + tuple(sorted(delivered - set(first)))


def _is_one_object(line: Column) -> Column:
    # Spark's parser is content when the first value ends. What follows breaks one of these frames.
    in_array = F.json_array_length(F.concat(F.lit("["), line, F.lit("]")))
    in_object = F.json_object_keys(F.concat(F.lit('{"":'), line, F.lit("}")))
    return F.startswith(line, F.lit("{")) & (in_array == 1) & (F.size(in_object) == 1)


def text_lines(spark: SparkSession, files: tuple[DeliveredFile, ...]) -> DataFrame:
    """Return the lines as column ``value``, with their bytes unchanged."""
    return spark.read.text([file.pattern for file in files])


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


def _wrong_encoding(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return wrong_encoding("UTF-8", count, file, line, samples)


def wrong_encoding(encoding: str, count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    """Return the refusal for bytes that are invalid in the source's encoding."""
    return Refusal(
        "WRONG_ENCODING",
        f"{file}, line {line}: not {encoding}; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="Say the file's encoding in the source's options, or deliver it in the one that is said.",
    )


def _bad_json(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "BAD_JSON",
        f"{file}, line {line}: not one JSON object; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="JSON lines hold one object per line, from { to }.",
    )


def _key_twice(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "DUPLICATE_COLUMN",
        f"{file}, line {line}: the object names a key more than once; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="Every key needs a name of its own.",
    )
