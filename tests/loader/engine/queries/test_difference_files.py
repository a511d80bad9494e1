"""CSV file of all rows that differ, if the answer of a comparison has a part of them."""

from functools import partial
from pathlib import Path

import pytest

from loader.engine.queries.differences import compare
from loader.engine.queries.exports import export_differences
from tests.fixtures.spark import by_night

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=8)]


def lines_of(spark, tmp_path: Path, key: list[str], before: list[tuple], after: list[tuple], samples: int = 1):
    """Return the difference of two tables, and the lines of its file without quotation marks."""
    path = tmp_path / "differences.csv"
    frames = [spark.createDataFrame(rows, "id integer, v string") for rows in (before, after)]
    export = partial(export_differences, path=str(path))
    difference = compare(*frames, key, samples=samples, export=export)
    lines = path.read_text(encoding="utf-8").replace('"', "").splitlines() if path.is_file() else []
    return difference, lines


def test_difference_file_contains_every_differing_row(spark, tmp_path):
    before = [(1, "a"), (2, "b"), (3, "c"), (4, None), (7, "same")]
    after = [(1, "A"), (2, "B"), (5, "=e"), (6, "f"), (7, "same")]
    difference, lines = lines_of(spark, tmp_path, ["id"], before, after)
    assert (difference["exported"], len(difference["samples"]["changed"])) == (6, 1)
    assert lines == [
        "row,before.id,before.v,after.id,after.v",
        "added,,,5,'=e",
        "added,,,6,f",
        "changed,1,a,1,A",
        "changed,2,b,2,B",
        "gone,3,c,,",
        "gone,4,,,",
    ]


def test_difference_file_without_a_key_repeats_surplus_rows(spark, tmp_path):
    difference, lines = lines_of(spark, tmp_path, [], [(1, "a"), (2, "b")], [(1, "a"), (1, "a"), (1, "a")])
    assert (difference["exported"], difference["rows"]["added"]) == (3, 2)
    assert lines[1:] == ["added,,,1,a", "added,,,1,a", "gone,2,b,,"]


def test_complete_difference_writes_no_file(spark, tmp_path):
    difference, lines = lines_of(spark, tmp_path, ["id"], [(1, "a")], [(1, "b")])
    assert ("exported" in difference, lines) == (False, [])


@pytest.mark.parametrize("key", [by_night(["id"], id="key"), pytest.param([], id="whole rows")])
def test_values_equal_by_type_with_different_text_are_unchanged(spark, key):
    before = [(1, "AB", "a"), (1, "AB", "a"), (2, "cd", "b")] if not key else [(1, "AB", "a"), (2, "cd", "b")]
    after = [(1, "ab", "a"), (2, "CD", "b"), (3, "EF", "c"), (3, "ef", "c")]
    frames = [spark.createDataFrame(rows, "id integer, u string, v string") for rows in (before, after)]
    difference = compare(*frames, key, types={"u": "uuid"})
    assert difference["rows"] == {"added": 2, "changed": 0, "gone": 0 if key else 1, "same": 2}
    assert sorted(difference["samples"]["added"])[0][1] == "EF"
    assert [row[1] for row in difference["samples"]["gone"]] == ([] if key else ["AB"])


@pytest.mark.nightly
def test_keys_equal_by_type_with_different_text_count_as_repeated(spark):
    frame = spark.createDataFrame([("AB", 1), ("ab", 1)], "id string, v integer")
    assert compare(frame, frame, ["id"], types={"id": "uuid"})["repeated_keys"] == 1
