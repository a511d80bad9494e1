"""XML documents, read as a stream: one record per row element.

A document type declaration is refused before it takes effect, since only there a document can define entities, which
may expand without end or name files and addresses. Attributes and child elements are columns. An element with
attributes or children is an object, a repeated element a list.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO
from xml.parsers import expat

from loader.domain.refusals import Refusal
from loader.records.content import chunks
from loader.records.values import Place, Record, local_name, values_of
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.domain.types import BLANKS

LIMIT = 1 << 30  # bytes of the unpacked document
DEEPEST = 100  # nested elements
LARGEST_RECORD = 64 << 20  # characters
TEXT = "#text"
# Attribute xsi:nil under any prefix, and the values of a true boolean in XML Schema.
_NIL, _TRUE = ":nil", ("true", "1")
_HINT = "An XML document has one root element, and each element is closed."


def read_xml(stored: BinaryIO, shown: str, options: ReadingOptions, wanted: Sequence[str]) -> Iterator[Record]:
    """Yield the records of a document, numbered by the line on which each begins.

    Raise Refusal BAD_XML, FORBIDDEN_XML, NO_SUCH_PATH, TOO_LARGE or UNREADABLE_FILE.
    """
    document = _Document(shown, options.row_tag)
    for piece in chunks(stored, shown, LIMIT):
        yield from _records(document.feed(piece), shown, wanted)
    yield from _records(document.feed(b"", last=True), shown, wanted)


def _records(elements: list[tuple[int, Any]], shown: str, wanted: Sequence[str]) -> Iterator[Record]:
    for line, value in elements:
        fields = value if isinstance(value, Mapping) else {TEXT: value}
        yield Record(line, values_of(fields, wanted, Place(shown, line, "line")))


class _Element:
    """Open element of a record: its attributes and finished elements, and its text."""

    def __init__(self, fields: dict[str, Any], *, is_nil: bool):
        self.fields, self.texts, self._is_nil = fields, [""], is_nil

    def add(self, name: str, value: Any) -> None:
        if name not in self.fields:
            self.fields[name] = value
        elif isinstance(self.fields[name], list):
            self.fields[name].append(value)
        else:
            self.fields[name] = [self.fields[name], value]

    def value(self) -> Any:
        """Return the text if the element has nothing else, an object if it has; None for ``xsi:nil``."""
        text = "".join(self.texts)
        if self._is_nil:
            return None
        if not self.fields:
            return text
        return self.fields | ({TEXT: text} if text.strip(BLANKS) else {})


class _Document:
    """Parser of one document, fed in pieces."""

    def __init__(self, shown: str, row_tag: str | None):
        self._shown, self._row_tag = shown, row_tag
        self._depth, self._line, self._size = 0, 0, 0
        self._open: list[_Element] = []  # from the record's element to the innermost
        self._finished: list[tuple[int, Any]] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, piece: bytes, *, last: bool = False) -> list[tuple[int, Any]]:
        """Return the records that end in this piece, each with the line on which it begins."""
        self._finished = []
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise Refusal(
                "BAD_XML",
                f"{self._shown}, line {error.lineno}, column {error.offset + 1}: {expat.ErrorString(error.code)}",
                file=self._shown,
                row=error.lineno,
                hint=_HINT,
            ) from None
        return self._finished

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._refusal("BAD_XML", f"more than {DEEPEST} elements within each other", _HINT)
        if self._open or self._is_record(name):
            if not self._open:
                self._line, self._size = self._parser.CurrentLineNumber, 0
            is_nil = any(key.endswith(_NIL) and text.strip(BLANKS) in _TRUE for key, text in attributes.items())
            fields = {
                local_name(key): text
                for key, text in attributes.items()
                if not key.startswith("xmlns") and not key.endswith(_NIL)
            }
            self._add_size(sum(map(len, fields.values())))
            self._open.append(_Element(fields, is_nil=is_nil))

    def _is_record(self, name: str) -> bool:
        if self._row_tag is None:
            return self._depth == 2
        return self._row_tag in (name, local_name(name))

    def _end(self, name: str) -> None:
        self._depth -= 1
        if not self._open:
            return
        value = self._open.pop().value()
        if self._open:
            self._open[-1].add(local_name(name), value)
        else:
            self._finished.append((self._line, value))

    def _text(self, text: str) -> None:
        if self._open:
            self._add_size(len(text))
            self._open[-1].texts.append(text)

    def _add_size(self, size: int) -> None:
        self._size += size
        if self._size > LARGEST_RECORD:
            raise self._refusal(
                "TOO_LARGE",
                f"the record that begins on line {self._line} has more than {LARGEST_RECORD >> 20} million characters",
                "Is the option row_tag right? It names the element of one row.",
            )

    def _doctype(self, *_: Any) -> None:
        raise self._refusal(
            "FORBIDDEN_XML",
            "a document type declaration (DOCTYPE), which is never read: it may define entities that expand without "
            "end or name other files",
            "Deliver the document without it.",
        )

    def _refusal(self, code: str, message: str, hint: str) -> Refusal:
        return Place(self._shown, self._parser.CurrentLineNumber, "line").refusal(code, message, hint)
