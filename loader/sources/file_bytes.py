"""Bytes of a file from which the way to read it is detected: its beginning, middle and end."""

import io
import os
from dataclasses import replace
from pathlib import Path

from loader.domain.sources.file_detection.model import FileSample
from loader.readers.records.content import UNREADABLE, unpacked
from loader.sources.text_files import unreadable
from metadata.domain.sources.formats import PACKED

# Bytes of the beginning, and of each piece from the middle and the end; both are even, for UTF-16.
_BEGINNING, _PIECE = 1 << 18, 1 << 16
# Bytes of a compressed file that are unpacked to reach its middle and end.
_MOST_UNPACKED = 1 << 28


def ending_of_packed(path: Path) -> str:
    """Return the ending that names a compression; empty if there is none."""
    return next((ending for ending in PACKED if path.name.endswith(ending)), "")


def sample_bytes(path: Path, shown: str) -> FileSample:
    """Return the beginning, the middle and the end of a file. Raise Refusal UNREADABLE_FILE."""
    try:
        with path.open("rb") as stored:
            if not ending_of_packed(path):
                return _sample_of(stored, os.fstat(stored.fileno()).st_size, shown)
            stream = unpacked(stored, path.name)
            content = stream.read(_MOST_UNPACKED)
            is_cut = len(content) == _MOST_UNPACKED and bool(stream.read(1))
            return replace(_sample_of(io.BytesIO(content), len(content), shown), is_cut=is_cut)
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def _sample_of(stream: io.BufferedIOBase | io.BytesIO, size: int, shown: str) -> FileSample:
    beginning = stream.read(_BEGINNING)
    if size <= _BEGINNING + 2 * _PIECE:
        return FileSample(shown, beginning + stream.read())
    pieces = []
    for start in (size // 2, size - _PIECE):
        start = max(start, _BEGINNING) // 4 * 4
        stream.seek(start)
        pieces.append(stream.read(_PIECE if start + _PIECE < size - 4 else -1))
    return FileSample(shown, beginning, tuple(pieces))
