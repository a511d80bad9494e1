"""Format and size limits of uploaded files, determined from their content."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.contract.refusals import Refusal
from loader.services.upload_formats import CSV, PACKED_CSV, PARQUET, Limits, examined

LIMITS = Limits(unpacked_bytes=1_000_000, rows=1000)
ROWS = b"icao,_fivetran_start\nEDDF,2026-01-01T00:00:00Z\n"


def compress(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def write(folder: Path, content: bytes) -> Path:
    path = folder / "sent"
    path.write_bytes(content)
    return path


def refused(path: Path) -> Refusal:
    with pytest.raises(Refusal) as caught:
        examined(path, "upsert file 'a.csv'", LIMITS)
    return caught.value


@pytest.mark.parametrize(("content", "kind"), [(ROWS, CSV), (compress(ROWS), PACKED_CSV)])
def test_plain_and_compressed_csv_are_distinguished_by_their_bytes(tmp_path: Path, content: bytes, kind: str):
    assert examined(write(tmp_path, content), "", LIMITS) == kind


def test_parquet_is_recognized_by_its_bytes(tmp_path: Path):
    pq.write_table(pa.table({"icao": ["EDDF"]}), tmp_path / "sent")
    assert examined(tmp_path / "sent", "", LIMITS) == PARQUET


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04rest", "a zip file"),
        (b"\x1f\x8brest", "packed with gzip"),
        (b"a,b\x00\n", "no text"),
        (b"", "empty"),
        (compress(b"a\x00b"), "no text"),
    ],
)
def test_invalid_batch_file_is_refused_naming_the_file(tmp_path: Path, content: bytes, message: str):
    refusal = refused(write(tmp_path, content))
    assert (refusal.code, refusal.message) == ("NOT_A_BATCH_FILE", f"upsert file 'a.csv' is {message}")


def test_small_file_that_decompresses_beyond_the_limit_is_refused(tmp_path: Path):
    bomb = compress(b"0" * 2_000_000)
    assert len(bomb) < 1000
    assert refused(write(tmp_path, bomb)).code == "TOO_LARGE_UNPACKED"


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused(tmp_path: Path):
    pq.write_table(pa.table({"icao": [None] * 1001}), tmp_path / "sent")
    assert refused(tmp_path / "sent").code == "TOO_LARGE_UNPACKED"


@pytest.mark.parametrize("content", [compress(ROWS * 1000)[:-20], b"PAR1 and then nothing"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes):
    assert refused(write(tmp_path, content)).code == "UNREADABLE_FILE"
