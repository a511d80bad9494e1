"""Content of one file, unpacked according to its ending, up to a size limit.

Web pages and tasks on Spark's executors use it. The limit counts unpacked bytes, so that a small file that unpacks to a
huge one is refused.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from loader.contract.refusals import Refusal

_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda stored: gzip.GzipFile(fileobj=stored),
    # Not ``bz2.BZ2File``, which takes a stream with a damaged beginning, and all that follows, for no content.
    ".bz2": lambda stored: pa.CompressedInputStream(stored, "bz2"),
    ".zst": lambda stored: pa.CompressedInputStream(stored, "zstd"),
}
_CHUNK = 1 << 18
UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)


def unpacked(stored: BinaryIO, name: str) -> Any:
    """Return the unpacked stream of a file; ``stored`` itself if the ending of ``name`` is no compression.

    Endings are in lower case, as Spark recognises them.
    """
    ending = "." + name.rpartition(".")[2]
    return _OPENERS[ending](stored) if ending in _OPENERS else stored


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
