"""JSON documents: an array of objects, or one object, at the top or at a path.

The whole text is in memory, but its records are parsed one at a time.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from elevata.core import strict_json
from loader.contract.refusals import Refusal
from loader.readers.records.unpacking import whole
from loader.readers.records.values import Number, Place, Record, values_of
from metadata.domain.sources.reading_options import ReadingOptions

LIMIT = 256 << 20  # bytes of the unpacked document
_BLANKS = " \t\r\n"
_HINT = "A document holds one array of objects, or one object. For one object per line choose JSON lines."


def read_json(
    stored: BinaryIO, shown: str, options: ReadingOptions, wanted: Sequence[str], limit: int | None = None
) -> Iterator[Record]:
    """Yield the records of a document, counted from 1.

    Raise Refusal BAD_JSON, WRONG_ENCODING, NO_SUCH_PATH, TOO_LARGE or UNREADABLE_FILE.
    """
    content = whole(stored, shown, limit or LIMIT)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(
            "WRONG_ENCODING",
            f"{shown}: byte {error.start + 1:,} is not UTF-8",
            file=shown,
            samples=(content[error.start : error.start + 4].hex(" "),),
            hint="JSON is UTF-8.",
        ) from None
    del content
    document = _Document(text, shown)
    for number, value in enumerate(document.records(options.path.split(".") if options.path else []), start=1):
        place = Place(shown, number)
        if not isinstance(value, dict):
            raise place.refusal("BAD_JSON", "not an object", _HINT, sample=json.dumps(value, ensure_ascii=False))
        yield Record(number, values_of(value, wanted, place))
    document.end()


class _Document:
    """Parser of a JSON text that reads one record at a time; the text before its position is valid."""

    def __init__(self, text: str, shown: str):
        self._text, self._shown, self._at, self._count = text, shown, 0, 0
        self._decoder = strict_json.decoder(parse_int=Number, parse_float=Number)

    def records(self, path: list[str]) -> Iterator[Any]:
        """Yield the elements of the array at ``path``, or the one value there; none for null."""
        if not path:
            yield from self._elements()
            return
        names: set[str] = set()
        self._expect("{")
        for _ in self._parts("}"):
            name = self._value()
            if not isinstance(name, str) or isinstance(name, Number):
                raise self._refusal("a name in quotes is expected")
            if name in names:
                raise self._refusal(f"the name {name} occurs twice in one object")
            names.add(name)
            self._expect(":")
            if name == path[0]:
                yield from self.records(path[1:])
            else:
                self._value()
        if path[0] not in names:
            raise Refusal(
                "NO_SUCH_PATH",
                f"{self._shown} has no {path[0]} where the option path looks for it",
                file=self._shown,
                hint="Correct the option path: names from the top, joined by dots.",
            )

    def end(self) -> None:
        """Raise Refusal BAD_JSON for text after the document."""
        if self._peek():
            raise self._refusal("text follows the document")

    def _elements(self) -> Iterator[Any]:
        if self._peek() != "[":
            self._count += 1
            value = self._value()
            if value is not None:  # Go and other languages write an empty list as null.
                yield value
            return
        self._expect("[")
        for _ in self._parts("]"):
            self._count += 1
            yield self._value()

    def _parts(self, closing: str) -> Iterator[None]:
        """Yield once before each part of an array or object, up to its end."""
        if self._peek() == closing:
            self._at += 1
            return
        while True:
            yield
            if self._peek() == closing:
                self._at += 1
                return
            self._expect(",")

    def _value(self) -> Any:
        self._peek()
        try:
            start = self._at
            value, self._at = self._decoder.raw_decode(self._text, start)
            strict_json.check_surrogates(self._text[start : self._at])
        except json.JSONDecodeError as error:
            raise self._refusal(error.msg, error.pos) from None
        except strict_json.BadJson as error:
            raise self._refusal(str(error)) from None
        except RecursionError:
            raise self._refusal("nested too deeply") from None
        return value

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._refusal(f"{sign} is expected")
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is not blank without reading it; empty at the end."""
        text = self._text
        while self._at < len(text) and text[self._at] in _BLANKS:
            self._at += 1
        return text[self._at : self._at + 1]

    def _refusal(self, message: str, at: int | None = None) -> Refusal:
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        place = f", in record {self._count}" if self._count else ""
        end = "the document ends too early: " if at >= len(self._text) else ""
        return Refusal(
            "BAD_JSON",
            f"{self._shown}, line {line}{place}: {end}{message}",
            file=self._shown,
            row=self._count or line,
            samples=(self._text[at : at + 80],) if at < len(self._text) else (),
            hint=_HINT,
        )
