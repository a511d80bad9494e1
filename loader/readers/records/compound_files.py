"""Compound files (MS-CFB): a file system in sectors, in which old Excel workbooks have their stream."""

import struct

from loader.readers.records.workbook_parts import EncryptedWorkbook, PartMissing

_FREE = 0xFFFFFFFA  # sector numbers from here on end a chain
_STREAMS = ("workbook", "book")


def workbook_stream(content: bytes) -> bytes:
    """Return the stream with the workbook's records. Raise EncryptedWorkbook or PartMissing."""
    size = 1 << struct.unpack_from("<H", content, 30)[0]
    if not 1 << 9 <= size <= 1 << 12:
        raise PartMissing("its sectors have no usual size")
    table = _sector_table(content, size)
    directory = _chain(content, size, table, struct.unpack_from("<I", content, 48)[0])
    streams: dict[str, tuple[int, int]] = {}
    for at in range(0, len(directory) - 127, 128):
        length = struct.unpack_from("<H", directory, at + 64)[0]
        name = directory[at : at + max(0, length - 2)].decode("utf-16-le", errors="replace").lower()
        streams.setdefault(name, struct.unpack_from("<II", directory, at + 116))
    if "encryptedpackage" in streams:
        raise EncryptedWorkbook
    start, length = next((streams[name] for name in _STREAMS if name in streams), (None, 0))
    if start is None:
        raise PartMissing("it has no stream with a workbook")
    if length >= struct.unpack_from("<I", content, 56)[0]:
        return _chain(content, size, table, start)[:length]
    small = _chain(content, size, table, struct.unpack_from("<I", directory, 116)[0])
    small_table = _numbers(_chain(content, size, table, struct.unpack_from("<I", content, 60)[0]))
    small_size = 1 << struct.unpack_from("<H", content, 32)[0]
    return _chain(small, small_size, small_table, start, header=0)[:length]


def _sector_table(content: bytes, size: int) -> tuple[int, ...]:
    """Return the next sector of each sector."""
    sectors = [number for number in struct.unpack_from("<109I", content, 76) if number < _FREE]
    (further, count) = struct.unpack_from("<II", content, 68)
    for _ in range(min(count, len(content) // size)):
        if further >= _FREE:
            break
        numbers = _numbers(_sector(content, size, further, size))
        sectors += [number for number in numbers[:-1] if number < _FREE]
        further = numbers[-1]
    return _numbers(b"".join(_sector(content, size, number, size) for number in sectors))


def _numbers(content: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(content) // 4}I", content[: len(content) // 4 * 4])


def _sector(content: bytes, size: int, number: int, header: int) -> bytes:
    at = header + number * size
    if at >= len(content):
        raise PartMissing("a sector is missing")
    return content[at : at + size]


def _chain(content: bytes, size: int, table: tuple[int, ...], start: int, header: int | None = None) -> bytes:
    """Return the content of the sectors from ``start`` on. Raise PartMissing for a chain without an end."""
    parts: list[bytes] = []
    number = start
    while number < _FREE:
        if len(parts) > len(table):
            raise PartMissing("its sectors form a circle")
        parts.append(_sector(content, size, number, size if header is None else header))
        number = table[number]
    return b"".join(parts)
