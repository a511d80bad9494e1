"""Content of one file: unpacked by its ending, within a limit of its size.

Pages and tasks on Spark's executors read it alike. A limit counts what comes out of the unpacking, so a small file that
unpacks to a huge one ends there.
"""

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from loader.domain.refusals import Refusal

_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda stored: gzip.GzipFile(fileobj=stored),
    ".bz2": bz2.BZ2File,
    ".zst": lambda stored: pa.CompressedInputStream(stored, "zstd"),
    ".zstd": lambda stored: pa.CompressedInputStream(stored, "zstd"),
}
_CHUNK = 1 << 18
UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)


def unpacked(stored: BinaryIO, name: str) -> Any:
    """Return the stream of the content of a file of this name; it is the stored one if no ending says otherwise."""
    ending = "." + name.lower().rpartition(".")[2]
    return _OPENERS[ending](stored) if ending in _OPENERS else stored


def chunks(stored: BinaryIO, shown: str, limit: int) -> Iterator[bytes]:
    """Yield the content in pieces. Raise Refusal TOO_LARGE beyond ``limit`` bytes, or UNREADABLE_FILE."""
    taken = 0
    try:
        content = unpacked(stored, shown)
        while piece := content.read(_CHUNK):
            taken += len(piece)
            if taken > limit:
                raise too_large(shown, f"its content is more than {limit >> 20:,} MB", limit)
            yield bytes(piece)
    except UNREADABLE as error:
        raise unreadable(shown, str(error)) from error


def whole(stored: BinaryIO, shown: str, limit: int) -> bytes:
    """Return the content, at most ``limit`` bytes."""
    return b"".join(chunks(stored, shown, limit))


def too_large(shown: str, message: str, limit: int) -> Refusal:
    """Return the refusal of a file that one task cannot read within its memory."""
    return Refusal(
        "TOO_LARGE",
        f"{shown}: {message}, the limit of this format",
        file=shown,
        count=limit,
        hint="Deliver it in several files, or as CSV, JSON lines or Parquet, which have no such limit.",
    )


def unreadable(shown: str, reason: str) -> Refusal:
    """Return the refusal for a file that cannot be read."""
    return Refusal(
        "UNREADABLE_FILE",
        f"{shown} cannot be read: {reason[:300]}",
        file=shown,
        hint="Check that the file is whole, that its ending says how it is packed, and who may read it.",
    )
