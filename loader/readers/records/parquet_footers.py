"""Parts of columns in the footer of a Parquet file: encodings, compression, encryption.

pyarrow ends the whole process for a part that is encrypted, or whose compression it does not know. So the footer is
read here: Thrift in its compact form (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md). A footer has a
structure per column and row group, so that only the wanted fields become values, and all others are skipped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ENDING = 8  # bytes after the footer: its length, and the magic number
_LENGTH = 4
_DEEPEST = 50  # nested structures
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_FIRST_NUMBER, _LAST_NUMBER = 4, 6  # kinds of whole numbers
_FIXED = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}  # bytes of an element
_CONTINUED = 0x80  # bit of each byte of a number but its last
# Numbers of fields in the structures of Parquet.
_ROW_GROUPS, _COLUMNS, _METADATA, _CRYPTO, _ENCRYPTED, _ENCODINGS, _CODEC = 4, 1, 3, 8, 9, 2, 4

# Reader of a value: content, place and kind to the value and the place after it.
_Reader = Callable[[bytes, int, int], tuple[Any, int]]


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
        footer, _ = _struct(end[-ENDING - length : -ENDING], 0, {_ROW_GROUPS: _row_groups})
    except LookupError as error:
        raise ValueError("its footer is broken") from error
    return footer.get(_ROW_GROUPS, [])


def _row_groups(content: bytes, at: int, kind: int) -> tuple[list[list[ColumnPart]], int]:
    groups, at = _list_of(content, at, kind, {_COLUMNS: _parts})
    return [group.get(_COLUMNS, []) for group in groups], at


def _parts(content: bytes, at: int, kind: int) -> tuple[list[ColumnPart], int]:
    chunks, at = _list_of(content, at, kind, _OF_CHUNK)
    parts = []
    for chunk in chunks:
        metadata = chunk.get(_METADATA, {})
        is_encrypted = _CRYPTO in chunk or _ENCRYPTED in chunk
        parts.append(_part(metadata.get(_ENCODINGS, ()), metadata.get(_CODEC), is_encrypted))
    return parts, at


@lru_cache(maxsize=1_000)
def _part(encodings: tuple[int, ...], compression: int | None, is_encrypted: bool) -> ColumnPart:
    return ColumnPart(frozenset(encodings), compression, is_encrypted)


def _metadata(content: bytes, at: int, kind: int) -> tuple[dict[int, Any], int]:
    _expect(kind, _STRUCT)
    return _struct(content, at, _OF_METADATA)


def _presence(content: bytes, at: int, kind: int) -> tuple[bool, int]:
    return True, _skipped(content, at, kind)


def _numbers(content: bytes, at: int, kind: int) -> tuple[tuple[int, ...], int]:
    _expect(kind, _LIST)
    size, inner, at = _list_head(content, at)
    numbers = []
    for _ in range(size):
        number, at = _number(content, at, inner)
        numbers.append(number)
    return tuple(numbers), at


def _number(content: bytes, at: int, kind: int) -> tuple[int, int]:
    if not _FIRST_NUMBER <= kind <= _LAST_NUMBER:
        raise ValueError(f"its footer has a value of the kind {kind} instead of a number")
    number, at = _length(content, at)
    return number >> 1 ^ -(number & 1), at


_OF_CHUNK: Mapping[int, _Reader] = {_METADATA: _metadata, _CRYPTO: _presence, _ENCRYPTED: _presence}
_OF_METADATA: Mapping[int, _Reader] = {_ENCODINGS: _numbers, _CODEC: _number}


def _expect(kind: int, expected: int) -> None:
    if kind != expected:
        raise ValueError(f"its footer has a value of the kind {kind} instead of {expected}")


def _list_of(content: bytes, at: int, kind: int, wanted: Mapping[int, _Reader]) -> tuple[list[dict[int, Any]], int]:
    """Return the wanted fields of each structure of a list, and the place after it."""
    _expect(kind, _LIST)
    size, inner, at = _list_head(content, at)
    structures = []
    for _ in range(size):
        _expect(inner, _STRUCT)
        fields, at = _struct(content, at, wanted)
        structures.append(fields)
    return structures, at


def _struct(content: bytes, at: int, wanted: Mapping[int, _Reader]) -> tuple[dict[int, Any], int]:
    """Return the wanted fields of a structure by their numbers, and the place after it."""
    fields: dict[int, Any] = {}
    number = 0
    while head := content[at]:
        at += 1
        step, kind = head >> 4, head & 0x0F
        if step:
            number += step
        else:
            number, at = _number(content, at, _FIRST_NUMBER)
        if read := wanted.get(number):
            fields[number], at = read(content, at, kind)
        elif kind > _FALSE:  # the head of a field has the value of a truth
            at = _skipped(content, at, kind)
        elif not kind:
            raise ValueError("its footer has a field without a type")
    return fields, at + 1


def _skipped(content: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Return the place after a value."""
    if _FIRST_NUMBER <= kind <= _LAST_NUMBER:
        while content[at] & _CONTINUED:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _length(content, at)
        return at + size
    if depth > _DEEPEST:
        raise ValueError("its footer is nested too deeply")
    if kind == _STRUCT:
        return _skipped_struct(content, at, depth)
    if kind in (_LIST, _SET):
        size, inner, at = _list_head(content, at)
        for _ in range(size):
            at = _skipped(content, at, inner, depth + 1)
        return at
    if kind == _MAP:
        return _skipped_map(content, at, depth)
    if kind not in _FIXED:
        raise ValueError(f"its footer has a value of the unknown kind {kind}")
    content[at]  # Raise IndexError at the end: a list may declare more values than it has.
    return at + _FIXED[kind]


def _skipped_struct(content: bytes, at: int, depth: int) -> int:
    while head := content[at]:
        at += 1
        kind = head & 0x0F
        if head == kind:  # the number of the field follows
            at = _skipped(content, at, _FIRST_NUMBER)
        if _FIRST_NUMBER <= kind <= _LAST_NUMBER:
            while content[at] & _CONTINUED:
                at += 1
            at += 1
        elif kind > _FALSE:
            at = _skipped(content, at, kind, depth + 1)
        elif not kind:
            raise ValueError("its footer has a field without a type")
    return at + 1


def _skipped_map(content: bytes, at: int, depth: int) -> int:
    size, at = _length(content, at)
    if not size:
        return at
    kinds = content[at]
    at += 1
    for _ in range(size):
        at = _skipped(content, at, kinds >> 4, depth + 1)
        at = _skipped(content, at, kinds & 0x0F, depth + 1)
    return at


def _list_head(content: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of elements of a list, their kind, and the place of the first one."""
    head = content[at]
    size, at = head >> 4, at + 1
    if size == 0x0F:
        size, at = _length(content, at)
    return size, head & 0x0F, at


def _length(content: bytes, at: int) -> tuple[int, int]:
    """Return a number without a sign, and the place after it."""
    byte = content[at]
    number, shift = byte & 0x7F, 7
    while byte & _CONTINUED:
        at += 1
        byte = content[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    return number, at + 1
