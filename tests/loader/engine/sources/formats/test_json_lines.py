"""Recognition of texts that are exactly one JSON object."""

import pytest
from pyspark.sql import functions as F

from loader.engine.sources.formats.json_lines import is_one_object

pytestmark = pytest.mark.spark

ONE = ['{}', '{"a": 1}', '{"a": {"b": [1, "]}"]}}', '{"a": "x,y"}', '{"a": "\\"]"}']  # fmt: skip
NOT_ONE = [
    "", "1", "[1]", "[{}]", "{", '{"a": [', '{"a": "x', "{} {}", "{}, {}", "{}], [{}", "{}]", "{}}", "{} x", '{}, "x"',
    '{}, "x"] y', '{"a": NaN}', '{"a" 1}', None,
]  # fmt: skip


@pytest.mark.core
def test_is_one_object_accepts_only_texts_of_a_single_json_object(spark):
    frame = spark.createDataFrame([(text,) for text in ONE + NOT_ONE], "text STRING")
    rows = frame.select("text", F.coalesce(is_one_object(F.col("text")), F.lit(False)).alias("one")).collect()
    assert {row["text"]: row["one"] for row in rows} == dict.fromkeys(ONE, True) | dict.fromkeys(NOT_ONE, False)
