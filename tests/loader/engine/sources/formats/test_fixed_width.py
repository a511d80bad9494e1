"""Lines of fixed width: values by positions, and the refusal of short lines and wrong encodings."""

import pytest

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from tests.loader.engine.sources.deliveries import CONTRACT

pytestmark = pytest.mark.spark

B = ("b", None, "2")
COLUMNS = "id:1-3, name:4-8, n:10-12"


@pytest.mark.core
@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("a  x y  #  1\nb       #  2\n", {}, [("a", "x y", "1"), ("b", None, "2")]),
        ("a  xü    007\r\n\r\nb  -    0  2    \r\n", {"null_string": "-"}, [("a", "xü", "007"), ("b", None, "2")]),
        ("a  xü      1\n".encode("cp1252"), {"encoding": "windows-1252"}, [("a", "xü", "1")]),
        ("a  x y  #  1\nb       #  2\n".encode("cp500"), {"encoding": "IBM500"}, [("a", "x y", "1"), ("b", None, "2")]),
        ("a  xü      1\x85b       #  2\x85".encode("cp037"), {"encoding": "IBM037"}, [("a", "xü", "1"), B]),
        ("a  x       1\r\nb          2\r\n".encode("cp1140"), {"encoding": "cp1140"}, [("a", "x", "1"), B]),
        ("a  x\nb\n", {"short_lines": True, "empty_is_null": False}, [("a", "x", ""), ("b", "", "")]),
    ],
)
def test_fixed_width_lines_are_read_by_position(spark, put, content, options, expected):
    columns = CONTRACT if "short_lines" not in options else CONTRACT[:2]
    source = SourceSpec("src", put("a.txt", content), "fixed", columns, {"columns": COLUMNS} | options)
    delivery = read_delivery(spark, source)
    rows = sorted(map(tuple, delivery.frame.collect()))
    delivery.release()
    assert rows == [row[: len(columns)] for row in expected]


@pytest.mark.parametrize(
    ("content", "options", "code", "line"),
    [
        ("a  x       1\nb  y\n", {}, "RAGGED_ROW", 2),
        ("a  x       1\nb  y       x\n", {}, "VALUE_DOES_NOT_FIT", 2),
        (b"a  x       1\nb  \xff       1\n", {}, "WRONG_ENCODING", 2),
        ("a  x       1\nb  y       2 and more\n", {}, "RAGGED_ROW", 2),
        ("a  x       1b  y       2c  z       3", {}, "RAGGED_ROW", 1),
        ("a  x       1b  y       2".encode("cp500"), {"encoding": "IBM500"}, "RAGGED_ROW", 1),
        ("a  x       1\n\x85b  y      2\n".encode("cp500"), {"encoding": "IBM500"}, "RAGGED_ROW", 2),
        ("a  x       1\n", {"encoding": "UTF-16"}, "BAD_OPTION", None),
        ("a  x       1\n", {"columns": "id:1-3, name:3-8"}, "BAD_OPTION", None),
        ("a  x       1\n", {"columns": "id:1-3, name:4-8"}, "MISSING_COLUMN", None),
    ],
)
def test_broken_lines_are_refused(spark, put, content, options, code, line):
    with pytest.raises(Refusal) as caught:
        read_delivery(
            spark, SourceSpec("src", put("a.txt", content), "fixed", CONTRACT, {"columns": COLUMNS} | options)
        )
    assert (caught.value.code, caught.value.row) == (code, line)
