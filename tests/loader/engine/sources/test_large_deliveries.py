"""Deliveries that would fill the memory of all runs are refused with their place."""

import gzip
from pathlib import Path

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.session import source_roots
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.files import list_files
from loader.engine.sources.formats.text_lines import LONGEST_LINE, check_line_lengths
from tests.fixtures.spark import by_night

pytestmark = pytest.mark.spark

KEY = DeliveredColumn("k-id", "id", "integer", nullable=False, business_key=True)
COLUMNS = (KEY, DeliveredColumn("k-v", "v", "string"))


def refused(spark, location: str, format_name: str, **options) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_delivery(spark, SourceSpec("t.a", location, format_name, COLUMNS, options))
    return caught.value


@pytest.mark.parametrize("format_name", ["csv", "jsonl"])
def test_a_delivery_of_ten_thousand_columns_is_refused(spark, put, format_name: str):
    names = [f"x{number}" for number in range(9_998)]
    content = {
        "csv": f"id,v,{','.join(names)}\n1,a,{','.join('1' * len(names))}\n",
        "jsonl": '{"id": 1, "v": "a", ' + ", ".join(f'"{name}": 1' for name in names) + "}\n",
    }[format_name]
    refusal = refused(spark, put(f"wide.{format_name}", content), format_name)
    assert (refusal.code, refusal.count) == ("TOO_MANY_COLUMNS", 10_000)


def test_a_header_without_end_is_refused(spark, put):
    assert refused(spark, put("header.csv", "id,v," + "x" * 2_000_000), "csv").code == "UNREADABLE_HEADER"


@pytest.mark.parametrize(
    ("format_name", "first", "rest", "options"),
    [
        ("csv", "id,v\n1,a\n2,", "b", {}),
        by_night("jsonl", '{"id": 1, "v": "a"}\n\n{"id": 2, "v": "', "b", {}),
        by_night("fixed", "1 a\n2 ", " ", {"columns": "id:1-2, v:3-3"}),
    ],
)
@pytest.mark.parametrize("packed", [False, by_night(True)])
def test_a_line_that_is_too_long_is_refused_with_its_place(
    spark, tmp_path: Path, format_name, first, rest, options, packed
):
    content = (first + rest * (LONGEST_LINE + 1)).encode()
    path = tmp_path / f"long.{format_name}{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(content) if packed else content)
    refusal = refused(spark, str(path), format_name, **options)
    assert (refusal.code, refusal.file, refusal.row) == ("LONG_LINE", str(path), first.count("\n") + 1)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_large_file_of_usual_lines_is_not_refused(spark, tmp_path: Path, ending: str):
    path = tmp_path / "usual.csv"
    path.write_text(f"1,{'b' * 998}{ending}" * 20_000, newline="")
    (file,) = list_files(spark, str(path), source_roots(spark))
    assert file.size > LONGEST_LINE
    check_line_lengths(spark, file, "UTF-8")
