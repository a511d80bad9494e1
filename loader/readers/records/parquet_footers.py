"""Parts of columns in the footer of a Parquet file: encodings, compression, encryption.

pyarrow ends the whole process for a part that is encrypted, or whose compression it does not know. So the footer is
read here: Thrift in its compact form (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
"""

from dataclasses import dataclass
from typing import Any

ENDING = 8  # bytes after the footer: its length, and the magic number
_LENGTH = 4
_DEEPEST = 50  # nested structures
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_NUMBERS = (4, 5, 6)
_FIXED = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}  # bytes of an element
# Numbers of fields in the structures of Parquet.
_ROW_GROUPS, _COLUMNS, _METADATA, _CRYPTO, _ENCRYPTED, _ENCODINGS, _CODEC = 4, 1, 3, 8, 9, 2, 4


@dataclass(frozen=True)
class ColumnPart:
    """Part of a column in one row group; ``encodings`` and ``compression`` are their numbers in Parquet.

    ``compression`` is None if the part does not have it.
    """

    encodings: frozenset[int]
    compression: int | None
    is_encrypted: bool


def column_parts(end: bytes) -> list[list[ColumnPart]]:
    """Return the parts of each row group, in the order of the columns; ``end`` has the footer and what follows it.

    Raise ValueError for a footer that is broken.
    """
    length = int.from_bytes(end[-ENDING:-_LENGTH], "little")
    try:
        footer = _CompactReader(end[-ENDING - length : -ENDING]).struct()
        return [[_part(chunk) for chunk in group.get(_COLUMNS, [])] for group in footer.get(_ROW_GROUPS, [])]
    except (LookupError, AttributeError, TypeError) as error:
        raise ValueError("its footer is broken") from error


def _part(chunk: dict[int, Any]) -> ColumnPart:
    metadata = chunk.get(_METADATA, {})
    is_encrypted = _CRYPTO in chunk or _ENCRYPTED in chunk
    return ColumnPart(frozenset(metadata.get(_ENCODINGS, [])), metadata.get(_CODEC), is_encrypted)


class _CompactReader:
    """Reader of values in Thrift's compact form. Structures are dictionaries by the numbers of their fields."""

    def __init__(self, content: bytes):
        self._content, self._at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 0x0F
            if kind == _STOP:
                raise ValueError("its footer has a field without a type")
            number = number + step if step else self._number()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        if kind in _NUMBERS:
            return self._number()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            return self._bytes(self._length())
        if kind in _FIXED:
            return self._bytes(_FIXED[kind])
        if kind in (_LIST, _SET):
            head = self._byte()
            size, inner = head >> 4, head & 0x0F
            size = self._length() if size == 0x0F else size
            return [self._value(inner, depth + 1) for _ in range(size)]
        if kind == _MAP:
            size = self._length()
            head = self._byte() if size else 0
            return [(self._value(head >> 4, depth + 1), self._value(head & 0x0F, depth + 1)) for _ in range(size)]
        raise ValueError(f"its footer has a value of the unknown kind {kind}")

    def _byte(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        return byte

    def _bytes(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._content):
            raise ValueError("its footer ends too early")
        return self._content[self._at - size : self._at]

    def _length(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def _number(self) -> int:
        number = self._length()
        return number >> 1 ^ -(number & 1)
