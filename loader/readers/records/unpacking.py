"""Content of one file, unpacked according to its ending, up to a size limit.

Web pages and tasks on Spark's executors use it. The limit counts unpacked bytes, so that a small file that unpacks to a
huge one is refused.
"""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from loader.contract.refusals import Refusal

_CHUNK = 1 << 18
UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)
# Reason why a compressed file of 0 bytes is refused: an unfinished copy must not be read as a delivery without rows.
EMPTY = "it has 0 bytes, which no compression writes"


class _Pieces(io.RawIOBase):
    """Stream of pieces of bytes."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _bzip2(stored: BinaryIO) -> Iterator[bytes]:
    """Yield the content of one bzip2 stream after another. NUL bytes after a stream are padding, as of tapes.

    Not ``bz2.BZ2File``, which takes a stream with a damaged beginning, and all that follows, for no content.
    """
    decoder: bz2.BZ2Decompressor | None = bz2.BZ2Decompressor()
    while packed := stored.read(_CHUNK):
        while decoder is not None or (packed := packed.lstrip(b"\0")):
            decoder = decoder or bz2.BZ2Decompressor()
            yield decoder.decompress(packed, _CHUNK)
            while not (decoder.eof or decoder.needs_input):
                yield decoder.decompress(b"", _CHUNK)
            if not decoder.eof:
                break
            packed, decoder = decoder.unused_data, None
    if decoder is not None:
        raise EOFError("it ends before its bzip2 stream does")


_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda stored: gzip.GzipFile(fileobj=stored),
    ".bz2": lambda stored: io.BufferedReader(_Pieces(_bzip2(stored))),
    ".zst": lambda stored: pa.CompressedInputStream(stored, "zstd"),
}


def unpacked(stored: BinaryIO, name: str) -> Any:
    """Return the unpacked stream of a file; ``stored`` itself if the ending of ``name`` is no compression.

    Endings are in lower case, as Spark recognises them. Raise OSError for a compressed file of 0 bytes; reading raises
    one of UNREADABLE.
    """
    ending = "." + name.rpartition(".")[2]
    if ending not in _OPENERS:
        return stored
    if not stored.read(1):
        raise OSError(EMPTY)
    stored.seek(0)
    return _OPENERS[ending](stored)


def chunks(stored: BinaryIO, shown: str, limit: int) -> Iterator[bytes]:
    """Yield the unpacked content in pieces. ``shown`` is the file's name; its ending gives the compression.

    Raise Refusal TOO_LARGE beyond ``limit`` bytes, or UNREADABLE_FILE.
    """
    size = 0
    try:
        content = unpacked(stored, shown)
        while piece := content.read(_CHUNK):
            size += len(piece)
            if size > limit:
                raise too_large(shown, f"its content is more than {limit >> 20:,} MB", limit)
            yield bytes(piece)
    except UNREADABLE as error:
        raise unreadable(shown, str(error)) from error


def whole(stored: BinaryIO, shown: str, limit: int) -> bytes:
    """Return the unpacked content. Raise Refusal TOO_LARGE beyond ``limit`` bytes, or UNREADABLE_FILE."""
    return b"".join(chunks(stored, shown, limit))


def too_large(shown: str, message: str, limit: int) -> Refusal:
    """Return the refusal of a file that exceeds a limit of its format; ``limit`` is the number in that limit's unit."""
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
