"""Row places: every file of a table has its own number, the same in a frame and in the later commit."""

import pytest
from pyspark.sql import functions as F

from loader.engine.tables.direct_commits import _number_files

pytestmark = pytest.mark.spark


def test_files_with_equal_numbers_are_numbered_with_another_salt(spark):
    """Use two of many file names that share a number (half a hash); they must not be confused."""
    names = spark.range(300_000).select(F.concat(F.lit("part-"), "id").alias("name"))
    halves = names.withColumn("half", F.shiftleft(F.xxhash64(F.lit("0"), "name"), 32))
    shared = halves.groupBy("half").agg(F.sort_array(F.collect_list("name")).alias("names")).where("size(names) > 1")
    pair = shared.orderBy("names").first().names[:2]
    salt, numbers = _number_files(spark, pair)
    assert salt != "0"
    assert sorted(numbers.values()) == pair

    half = F.shiftright(F.shiftleft(F.xxhash64(F.lit(salt), "name"), 32), 32)
    numbered = spark.createDataFrame([(name,) for name in pair], "name string").select(half.alias("number"), "name")
    assert {row.number: row.name for row in numbered.collect()} == numbers
