"""XML documents, read as a stream: one record per row element.

A document type declaration is refused before it takes effect, since only there a document can define entities, which
may expand without end or name files and addresses. Attributes and child elements are columns. An element with
attributes or children is an object, a repeated element a list. Names are read without their prefix, so two elements of
different namespaces may not have one name, nor may an attribute and an element.

The parser knows few encodings; others are decoded before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple
from xml.parsers import expat

from loader.contract.refusals import Refusal
from loader.readers.records.unpacking import chunks
from loader.readers.records.values import Place, Record, local_name, values_of
from loader.readers.records.xml_encodings import decoded
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.domain.text_formats import BLANKS

LIMIT = 1 << 30  # bytes of the unpacked document
DEEPEST = 100  # nested elements
LARGEST_RECORD = 64 << 20  # characters
_NAMES_SHOWN = 5
_DEPTH_OF_ROWS = 2  # without the option row_tag
TEXT = "#text"
# Attribute xsi:nil under any prefix, and the values of a true boolean in XML Schema.
_NIL, _TRUE = ":nil", ("true", "1")
_PREFIX_HINT = (
    "Names are read without their prefix, of attributes and elements alike. Have one of them delivered under another "
    "name, or leave the column out with the option ignored_columns."
)
ROW_TAG_HINT = "Correct the option row_tag: the case of names counts."
_HINT = "An XML document has one root element, and each element is closed."


def read_xml(
    stored: BinaryIO, shown: str, options: ReadingOptions, wanted: Sequence[str], limit: int | None = None
) -> Iterator[Record]:
    """Yield the records of a document, numbered by the line on which each begins.

    Raise Refusal BAD_XML, FORBIDDEN_XML, WRONG_ENCODING, NO_SUCH_PATH, TOO_LARGE or UNREADABLE_FILE. A value of which
    two records differ in kind, or that mixes two namespaces, is one of the record's ``faults``.
    """
    document, kinds = _Document(shown, options.row_tag), _Kinds()
    pieces = decoded(chunks(stored, shown, limit or LIMIT), shown)
    for piece in pieces:
        yield from _records(document.feed(piece), kinds, shown, wanted)
    yield from _records(document.feed("", last=True), kinds, shown, wanted)


def without_rows(stored: BinaryIO, shown: str, row_tag: str, limit: int | None = None) -> str:
    """Return a warning about a document without an element ``row_tag``; empty if it has no element but its root.

    Raise Refusal NO_SUCH_PATH if one that may be a row has a name that differs by case only: the root, an element in
    it, or a deeper one with attributes or elements. A deeper text may be a value of something else.
    """
    elements = _Elements(stored, shown, limit or LIMIT)
    names, rows = elements.names, elements.rows
    similar = next((name for name in rows if row_tag.lower() in (name.lower(), local_name(name).lower())), None)
    if similar is not None:
        raise Refusal(
            "NO_SUCH_PATH",
            f"{shown} has no element {row_tag}, which the option row_tag names, but {similar}",
            file=shown,
            hint=ROW_TAG_HINT,
        )
    others = ", ".join(list(names)[:_NAMES_SHOWN])
    return f"{shown} has no element {row_tag}, so no row was read of it, but others: {others}." if names else ""


class _Elements:
    """Names of a document's elements in their order, each once.

    ``names`` are those within the root; ``rows`` those of elements that may be rows, the root included.
    """

    def __init__(self, stored: BinaryIO, shown: str, limit: int):
        self.names: dict[str, None] = {}
        self.rows: dict[str, None] = {}
        self._open: list[str] = []
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = lambda _: self._open.pop()
        for piece in decoded(chunks(stored, shown, limit), shown):
            parser.Parse(piece.encode(), False)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._open:
            self.names.setdefault(name)
            self.rows.setdefault(self._open[-1])
        if len(self._open) < _DEPTH_OF_ROWS or any(not key.startswith("xmlns") for key in attributes):
            self.rows.setdefault(name)
        self._open.append(name)


def _records(elements: list["_RowElement"], kinds: "_Kinds", shown: str, wanted: Sequence[str]) -> Iterator[Record]:
    for element in elements:
        value, place = element.value, Place(shown, element.line, "line")
        fields = value if isinstance(value, Mapping) else {TEXT: value}
        texts = frozenset(name for name, inner in fields.items() if isinstance(inner, str) and inner.strip(BLANKS))
        objects = frozenset(name for name, inner in fields.items() if isinstance(inner, Mapping))
        faults = {name: mixed_kinds(shown, name, element.line) for name in kinds.mixed(texts, objects)}
        for name, text in element.mixed.items():
            paths = [path for path in wanted if path.startswith(f"{name}.")]
            refusal = place.refusal("BAD_XML", text, _PREFIX_HINT, column=name)
            faults |= dict.fromkeys((name, *paths), refusal)
        yield Record(element.line, values_of(fields, wanted, place, text_name=TEXT), faults, texts, objects)


def mixed_kinds(file: str, name: str, line: int | None = None) -> Refusal:
    """Return the refusal of a column that is a text in one record and an object in another."""
    return Refusal(
        "BAD_XML",
        f"{file}{f', line {line}' if line else ''}: the element {name} has attributes or elements in some records, and "
        "only text in others",
        file=file,
        row=line,
        column=name,
        hint=f"Take {name}.{TEXT} for its text, and a column like {name}.currency for an attribute, or leave it out "
        "with the option ignored_columns.",
    )


class _RowElement(NamedTuple):
    """Record of a document: the line on which it begins, its value, and the columns that mix two namespaces."""

    line: int
    value: Any
    mixed: dict[str, str]


class _Kinds:
    """Columns whose values were texts, or objects of elements with attributes or children."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._objects: set[str] = set()

    def mixed(self, texts: frozenset[str], objects: frozenset[str]) -> frozenset[str]:
        """Return the columns of a record that had the other kind in a record before it."""
        mixed = (texts & self._objects) | (objects & self._texts)
        self._texts |= texts
        self._objects |= objects
        return mixed


class _Element:
    """Open element of a record: its attributes and finished elements, and its text."""

    def __init__(self, name: str, fields: dict[str, Any], spaces: dict[str, str], *, is_nil: bool):
        self.name, self.fields, self.texts, self._is_nil = name, fields, [""], is_nil
        self.spaces = spaces  # addresses of namespaces by prefix
        self.attributes: frozenset[str] = frozenset()  # names
        self._space_of: dict[str, str] = {}  # of the child elements

    def add(self, name: str, value: Any, space: str) -> str:
        """Add a child element. Return what else has its name: an attribute, or an element of another namespace."""
        mixed = ""
        if name in self.attributes:
            mixed = f"an attribute and an element {name}"
        elif self._space_of.setdefault(name, space) != space:
            mixed = f"two elements {name} of different namespaces"
        if name not in self.fields:
            self.fields[name] = value
        elif isinstance(self.fields[name], list):
            self.fields[name].append(value)
        else:
            self.fields[name] = [self.fields[name], value]
        return mixed

    def value(self) -> Any:
        """Return the text if the element has nothing else, an object if it has; None for ``xsi:nil``."""
        text = "".join(self.texts)
        if self._is_nil:
            return None
        if not self.fields:
            return text
        return self.fields | ({TEXT: text} if text.strip(BLANKS) else {})


def _spaces_within(outer: dict[str, str], attributes: dict[str, str]) -> dict[str, str]:
    """Return the addresses of namespaces by prefix within an element."""
    own = {key[6:]: text for key, text in attributes.items() if key == "xmlns" or key.startswith("xmlns:")}
    return outer | own if own else outer


def _qualified(name: str, spaces: dict[str, str]) -> tuple[str, str]:
    """Return address of the namespace, or else the prefix, and local name of an element."""
    prefix, _, local = name.rpartition(":")
    return spaces.get(prefix, prefix), local


class _Document:
    """Parser of one document, fed in pieces."""

    def __init__(self, shown: str, row_tag: str | None):
        self._shown, self._row_tag = shown, row_tag
        self._depth, self._line, self._size = 0, 0, 0
        self._spaces: list[dict[str, str]] = [{}]  # of the open elements, the record's included
        self._row_name: tuple[str, str] | None = None  # of the first record
        self._open: list[_Element] = []  # from the record's element to the innermost
        self._mixed: dict[str, str] = {}
        self._finished: list[_RowElement] = []
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, piece: str, *, last: bool = False) -> list[_RowElement]:
        """Return the records that end in this piece."""
        self._finished = []
        try:
            self._parser.Parse(piece.encode(), last)
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
        self._spaces.append(_spaces_within(self._spaces[-1], attributes))
        if not self._open and not self._is_record(name):
            return
        if not self._open:
            self._line, self._size, self._mixed = self._parser.CurrentLineNumber, 0, {}
            self._check_row_name(name)
        is_nil = any(key.endswith(_NIL) and text.strip(BLANKS) in _TRUE for key, text in attributes.items())
        fields: dict[str, str] = {}
        element = _Element(local_name(name), fields, self._spaces[-1], is_nil=is_nil)
        for key, text in attributes.items():
            if key == "xmlns" or key.startswith("xmlns:") or key.endswith(_NIL):
                continue
            if local_name(key) in fields:
                self._mix(element, local_name(key), f"two attributes {local_name(key)} with different prefixes")
            fields[local_name(key)] = text
        element.attributes = frozenset(fields)
        self._add_size(sum(map(len, fields.values())))
        self._open.append(element)

    def _check_row_name(self, name: str) -> None:
        """Raise Refusal BAD_XML for a record of another namespace, if the option names them without a prefix."""
        qualified = _qualified(name, self._spaces[-1])
        self._row_name = self._row_name or qualified
        if self._row_tag == local_name(name) and qualified != self._row_name:
            message = f"elements {self._row_tag} of two namespaces, {self._row_name[0]!r} and {qualified[0]!r}"
            raise self._refusal("BAD_XML", message, "Name one of them with its prefix in the option row_tag.")

    def _mix(self, parent: _Element, name: str, message: str) -> None:
        """Note that a column mixes two names; ``parent`` is the element that has both."""
        is_inner = self._open and parent is not self._open[0]
        column = name if not is_inner else self._open[1].name if len(self._open) > 1 else parent.name
        self._mixed.setdefault(column, message)

    def _is_record(self, name: str) -> bool:
        if self._row_tag is None:
            return self._depth == _DEPTH_OF_ROWS
        return self._row_tag in (name, local_name(name))

    def _end(self, name: str) -> None:
        self._depth -= 1
        spaces = self._spaces.pop()
        if not self._open:
            return
        value = self._open.pop().value()
        if not self._open:
            self._finished.append(_RowElement(self._line, value, self._mixed))
            return
        local = local_name(name)
        if mixed := self._open[-1].add(local, value, _qualified(name, spaces)[0]):
            self._mix(self._open[-1], local, mixed)

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
