"""Bytes of a file from which the way to read it is detected: its beginning, middle and end."""

import io
import os
from pathlib import Path
from typing import Any

from loader.domain.sources.file_detection.model import FileSample
from loader.readers.records.unpacking import UNREADABLE, unpacked
from loader.sources.text_files import unreadable
from metadata.domain.sources.formats import PACKED

# Bytes of the beginning, and of each piece from the middle and the end; both are even, for UTF-16.
_BEGINNING, _PIECE = 1 << 18, 1 << 16
# Files up to this size are read whole.
_WHOLE = _BEGINNING + 2 * _PIECE
# Bytes of a compressed file that are unpacked to reach its middle and end.
_MOST_UNPACKED = 1 << 28
# Pieces of it that are in memory at once.
_MOST_KEPT = 32


def ending_of_packed(path: Path) -> str:
    """Return the ending that names a compression; empty if there is none."""
    return next((ending for ending in PACKED if path.name.endswith(ending)), "")


def sample_bytes(path: Path, shown: str) -> FileSample:
    """Return the beginning, the middle and the end of a file. Raise Refusal UNREADABLE_FILE."""
    try:
        with path.open("rb") as stored:
            if not ending_of_packed(path):
                return _sample_of(stored, os.fstat(stored.fileno()).st_size, shown)
            return _sample_of_packed(unpacked(stored, path.name), shown)
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def _sample_of_packed(stream: Any, shown: str) -> FileSample:
    """Return the sample of an unpacked stream, which is read piece by piece and of which few pieces are kept."""
    kept: dict[int, bytes] = {}  # by their number: those of the beginning, and every ``stride``-th
    last = former = b""
    size = number = 0
    stride = 1
    while size < _MOST_UNPACKED and (piece := _full(stream, min(_PIECE, _MOST_UNPACKED - size))):
        size += len(piece)
        former, last = last, piece
        if number % stride == 0 or number < _WHOLE // _PIECE:
            kept[number] = piece
        if len(kept) > _MOST_KEPT:
            stride *= 2
            kept = {each: kept[each] for each in kept if each % stride == 0 or each < _WHOLE // _PIECE}
        number += 1
    is_cut = size == _MOST_UNPACKED and bool(stream.read(1))
    if size <= _WHOLE:
        return FileSample(shown, b"".join(kept.values()), is_cut=is_cut)
    beginning = b"".join(kept[each] for each in range(_BEGINNING // _PIECE))
    later = [each for each in kept if each >= _BEGINNING // _PIECE and (each + 1) * _PIECE < size]
    middle = kept[min(later, key=lambda each: abs(each * _PIECE - size // 2))]
    end = former + last
    start = max(size - _PIECE, _BEGINNING) // 4 * 4
    return FileSample(shown, beginning, (middle, end[start - (size - len(end)) :]), is_cut=is_cut)


def _full(stream: Any, size: int) -> bytes:
    """Return the next bytes of a stream, fewer only at its end."""
    content = bytes(stream.read(size))
    while len(content) < size and (more := stream.read(size - len(content))):
        content += more
    return content


def _sample_of(stream: io.BufferedIOBase, size: int, shown: str) -> FileSample:
    beginning = stream.read(_BEGINNING)
    if size <= _WHOLE:
        return FileSample(shown, beginning + stream.read())
    pieces = []
    for start in (size // 2, size - _PIECE):
        start = max(start, _BEGINNING) // 4 * 4
        stream.seek(start)
        pieces.append(stream.read(_PIECE if start + _PIECE < size - 4 else -1))
    return FileSample(shown, beginning, tuple(pieces))
