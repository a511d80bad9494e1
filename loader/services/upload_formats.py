"""Format and size of uploaded files, determined from their content.

Names and media types come from the sender. The size of a compressed file is measured by decompressing it, without
storing the result.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loader.contract.refusals import Refusal

CSV, PACKED_CSV, PARQUET = "csv", "csv.zst", "parquet"
_HEAD = 64 * 1024
_CHUNK = 1 << 20
_PARQUET = b"PAR1"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Skippable frames, with which a zstd stream may begin.
_SKIPPABLE = b"\x2a\x4d\x18"
_FOREIGN = {b"PK\x03\x04": "a zip file", b"\x1f\x8b": "packed with gzip", b"BZh": "packed with bzip2"}
_FOREIGN |= {b"\xfd7zXZ\x00": "packed with xz", b"%PDF": "a PDF"}
_HINT = "Send CSV in UTF-8, plain or packed with zstd, or Parquet."


@dataclass(frozen=True)
class Limits:
    """Limits of a file: bytes after decompression, rows of a Parquet file."""

    unpacked_bytes: int
    rows: int = 50_000_000


def examined(path: Path, shown: str, limits: Limits) -> str:
    """Return CSV, PACKED_CSV or PARQUET. Raise Refusal NOT_A_BATCH_FILE, UNREADABLE_FILE or TOO_LARGE_UNPACKED.

    ``shown`` is the file's name in messages.
    """
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    if head.startswith(_PARQUET):
        _examine_parquet(path, shown, limits)
        return PARQUET
    if head.startswith(_ZSTD) or head[1:4] == _SKIPPABLE:
        _examine_packed(path, shown, limits)
        return PACKED_CSV
    _must_be_text(head, shown)
    return CSV


def _must_be_text(head: bytes, shown: str) -> None:
    problem = next((problem for magic, problem in _FOREIGN.items() if head.startswith(magic)), "")
    if not problem and b"\x00" in head:
        problem = "no text"
    if not head:
        problem = "empty"
    if problem:
        raise Refusal("NOT_A_BATCH_FILE", f"{shown} is {problem}", file=shown, hint=_HINT)


def _examine_packed(path: Path, shown: str, limits: Limits) -> None:
    size, head = 0, b""
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            while chunk := stream.read(_CHUNK):
                size, head = size + len(chunk), head or chunk[:_HEAD]
                if size > limits.unpacked_bytes:
                    raise _too_large(shown, limits)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(shown, error) from error
    _must_be_text(head, shown)


def _examine_parquet(path: Path, shown: str, limits: Limits) -> None:
    """Check bytes and rows in the footer; both are limited, since many rows may take few bytes."""
    try:
        with pq.ParquetFile(path) as file:
            footer = file.metadata
            size = sum(footer.row_group(place).total_byte_size for place in range(footer.num_row_groups))
            rows = footer.num_rows
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(shown, error) from error
    if size > limits.unpacked_bytes or rows > limits.rows:
        raise _too_large(shown, limits)


def _too_large(shown: str, limits: Limits) -> Refusal:
    return Refusal(
        "TOO_LARGE_UNPACKED",
        f"{shown} becomes larger than {limits.unpacked_bytes:,} bytes or {limits.rows:,} rows",
        file=shown,
        hint="Send it in parts, each a batch of its own.",
    )


def _unreadable(shown: str, error: Exception) -> Refusal:
    cause = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return Refusal("UNREADABLE_FILE", f"{shown} cannot be read: {cause}", file=shown, hint="Send the whole file again.")
