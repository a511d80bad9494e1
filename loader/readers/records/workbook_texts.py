"""Texts of Excel workbooks in XML with escaped characters, as ``_x000D_`` for U+000D (ECMA-376, ST_Xstring).

The library decodes escapes below U+0100 only. It leaves others as they are written, and so like the text of an escape
(``_x005F_x2028_``). Texts with others are decoded here, once.
"""

import re
import zipfile
from collections.abc import Sequence
from xml.parsers import expat

from loader.readers.records.values import local_name

_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
# U+0000, too, since a NUL that comes from the library is the sign of a text that it decoded wrongly.
_LEFT_BY_LIBRARY = re.compile("_x(?:0000|(?!00)[0-9A-Fa-f]{4})_")
# Bytes of a part that may have an escape; NUL bytes are those of UTF-16.
_SIGNS_OF_ESCAPES = re.compile(b"_x|&#|\0")
_CHUNK = 1 << 20
RUN_ELEMENTS = frozenset({"t", "rPh"})


def decoded_text(runs: Sequence[str]) -> str | None:
    """Return the text of these runs, if one has an escape that the library leaves; None for any other text.

    An escape never spans two runs, but a surrogate pair may. Half of a pair is one in the result.
    """
    if not any(map(_LEFT_BY_LIBRARY.search, runs)):
        return None
    units = "".join(_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), run) for run in runs)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def decoded_strings(packed: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Return the shared strings that the library does not decode, by their index as a cell has it."""
    if not _may_have_escapes(packed, part):
        return {}
    reader = _SharedStrings()
    with packed.open(part) as unpacked:
        reader.parser.ParseFile(unpacked)
    return reader.decoded


def _may_have_escapes(packed: zipfile.ZipFile, part: str) -> bool:
    with packed.open(part) as unpacked:
        end = b""
        while piece := unpacked.read(_CHUNK):
            if _SIGNS_OF_ESCAPES.search(end + piece):
                return True
            end = piece[-1:]
    return False


class TextRuns:
    """Runs of one text, from the events of a parser. Phonetic texts (``rPh``) belong to no value."""

    def __init__(self) -> None:
        self._runs: list[list[str]] = []
        self._is_text = self._is_phonetic = False

    @property
    def texts(self) -> list[str]:
        return ["".join(pieces) for pieces in self._runs]

    def clear(self) -> None:
        self._runs = []

    def start(self, kind: str) -> None:
        """Begin one of RUN_ELEMENTS."""
        if kind == "rPh":
            self._is_phonetic = True
        elif not self._is_phonetic:
            self._is_text = True
            self._runs.append([])

    def add(self, text: str) -> None:
        """Add a piece of text, unless it is outside of runs."""
        if self._is_text:
            self._runs[-1].append(text)

    def end(self, kind: str) -> None:
        """End one of RUN_ELEMENTS."""
        if kind == "rPh":
            self._is_phonetic = False
        else:
            self._is_text = False


class _SharedStrings:
    """Parser of the shared strings."""

    def __init__(self) -> None:
        self.decoded: dict[str, str] = {}
        self._number, self._runs = -1, TextRuns()
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._runs.add

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        kind = local_name(name)
        if kind in RUN_ELEMENTS:
            self._runs.start(kind)
        elif kind == "si":
            self._number += 1
            self._runs.clear()

    def _end(self, name: str) -> None:
        kind = local_name(name)
        if kind in RUN_ELEMENTS:
            self._runs.end(kind)
        elif kind == "si":
            text = decoded_text(self._runs.texts)
            if text is not None:
                self.decoded[str(self._number)] = text
