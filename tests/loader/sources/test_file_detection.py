"""Detection of formats by their bytes, and of texts that resemble another format."""

import gzip
import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.model import Detected
from loader.sources import file_bytes
from loader.sources.file_bytes import sample_bytes
from loader.sources.file_detection import detect_file
from metadata.domain.sources.locations import Roots

_RECORDS = "".join(f'{number};"Straße {number}\nOrt";{number},5\n' for number in range(60_000))


def detected(path: Path) -> Detected:
    return detect_file(path, Roots.of(("/",), folder=str(path.parent)))


def questions_of(result: Detected) -> dict[str, tuple]:
    return {question.option: question.candidates for question in result.questions}


@pytest.mark.parametrize(
    "text",
    [
        "ORCHESTRA,CITY\nA,Berlin\nB,Wien\n",
        "PAR1,PAR2\n1,2\n3,4\n",
        "Objekt,Ort\n1,A\n2,B\n",
        "PKZ,Ort\n1,A\n2,B\n",
        "{id},Ort\n1,A\n2,B\n",
        "[id],Ort\n1,A\n2,B\n",
        "<TICKER>,<PER>\nA,1\nB,2\n",
    ],
)
@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_text_that_begins_like_another_format_is_csv(tmp_path: Path, text: str, ending: str):
    path = tmp_path / f"a.{ending}"
    path.write_text(text)
    result = detected(path)
    assert (result.format, len(result.columns)) == ("csv", 2)


@pytest.mark.parametrize(("write", "format_name"), [(parquet.write_table, "parquet"), (orc.write_table, "orc")])
def test_binary_format_is_known_by_its_bytes(tmp_path: Path, write, format_name: str):
    write(pa.table({"id": [1, 2]}), tmp_path / "a.csv")
    assert detected(tmp_path / "a.csv").format == format_name


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        ('{"id": 1}\n{"id": 2}\n', "jsonl"),
        ('[\n {"id": 1}]\n', "json"),
        ("<rows>\n <row><id>1</id></row><row><id>2</id></row></rows>\n", "xml"),
    ],
)
def test_document_of_an_unknown_ending_is_known_by_its_beginning(tmp_path: Path, text: str, format_name: str):
    (tmp_path / "a.txt").write_text(text)
    assert detected(tmp_path / "a.txt").format == format_name


def test_page_of_html_is_refused(tmp_path: Path):
    (tmp_path / "a.csv").write_text("<html><body><table><tr><td>1,2</td></tr></table></body></html>")
    with pytest.raises(Refusal, match="HTML"):
        detected(tmp_path / "a.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_pieces_of_a_large_file_begin_anywhere(tmp_path: Path, encoding: str):
    path = tmp_path / "a.csv"
    path.write_bytes(f"Nr;Anschrift;Wert\n{_RECORDS}Summe;;17,5\n".encode(encoding))
    result = detected(path)
    assert {name: value for name, value in result.options.items() if name != "encoding"} == {
        "delimiter": ";",
        "decimal_separator": ",",
        "footer_lines": 1,
    }
    assert [str(column.type) for column in result.columns] == ["integer", "string", "float"]
    assert set(questions_of(result)) <= {"encoding"}
    assert ("encoding" in questions_of(result)) == (encoding == "cp1252")


def test_end_of_a_packed_file_that_was_not_read_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_bytes, "_MOST_UNPACKED", 600_001)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(f"Nr;Anschrift;Wert\n{_RECORDS}Summe;;17,5\n".encode()))
    assert sample_bytes(path, path.name).is_cut
    result = detected(path)
    assert result.options == {"delimiter": ";", "decimal_separator": ","}
    assert questions_of(result) == {"footer_lines": (0,)}


@pytest.mark.parametrize("size", [0, 1, 65_536, 393_216, 393_217, 500_001, 9_000_003])
def test_sample_of_a_packed_file_is_that_of_its_content(tmp_path: Path, size: int):
    content = random.Random(size).randbytes(size)
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content, 1))
    plain, packed = (sample_bytes(tmp_path / name, "a.csv") for name in ("a.csv", "a.csv.gz"))
    assert (packed.beginning, packed.pieces[1:], packed.is_cut) == (plain.beginning, plain.pieces[1:], False)
    assert len(packed.pieces) == len(plain.pieces)
    for middle in packed.pieces[:1]:
        assert abs(content.index(middle) - size // 2) <= max(size // 16, 1 << 16)


def test_packed_file_takes_little_memory(tmp_path: Path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id;name\n" + b"1;anna\n" * 9_000_000, 1))
    tracemalloc.start()
    try:
        sample_bytes(tmp_path / "a.csv.gz", "a.csv")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20
