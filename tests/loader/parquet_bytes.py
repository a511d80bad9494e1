"""Parquet files of other writers: files of pyarrow whose footers are changed byte by byte.

A footer is Thrift in its compact form. A schema element has its name as field 4, its converted type as field 6, scale
and precision as 7 and 8, and its logical type as field 10.
"""

import base64
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

# Fields of the union LogicalType, written as text first.
GEOMETRY, GEOGRAPHY, UNKNOWN = 17, 18, 40
_TEXT_TYPE = b"\x25\x00\x4c\x1c\x00\x00"  # converted type UTF8, logical type STRING


def written(table: pa.Table, **options) -> bytes:
    stored = io.BytesIO()
    pq.write_table(table, stored, store_schema=False, **options)
    return stored.getvalue()


def with_logical_type(ids: list[int], name: str, values: list[bytes | None], number: int) -> bytes:
    """Return a file with a column ``name`` of bytes that have a logical type by its number."""
    texts = pa.array([None if value is None else value.decode("ascii") for value in values])
    content = written(pa.table({"id": pa.array(ids, pa.int32()), name: texts}))
    logical = b"\x6c\x0c" + bytes([number * 2]) + b"\x00\x00"
    return _replaced(content, name.encode() + _TEXT_TYPE, name.encode() + logical)


def with_decimals_in_bytes(ids: list[int], name: str, values: list[int]) -> bytes:
    """Return a file with a column of decimals of four digits, two of them after the point, in byte arrays."""
    stored = pa.array([value.to_bytes(2, "big", signed=True) for value in values], pa.binary())
    content = written(pa.table({"id": pa.array(ids, pa.int32()), name: stored}))
    decimal = b"\x25\x0a\x15\x04\x15\x08\x00"
    return _replaced(content, name.encode() + b"\x00", name.encode() + decimal)


def with_former_lz4(table: pa.Table) -> bytes:
    """Return a file whose pages are packed by LZ4 as it was used before its framing was defined."""
    content = written(table, compression="lz4")
    for name in table.column_names:
        content = _replaced(content, name.encode() + b"\x15\x0e", name.encode() + b"\x15\x0a")
    return content


def with_compression(table: pa.Table, number: int) -> bytes:
    """Return a file whose pages claim a compression by its number, which is less than 64."""
    content = written(table, compression="snappy")
    for name in table.column_names:
        content = _replaced(content, name.encode() + b"\x15\x02", name.encode() + b"\x15" + bytes([number * 2]))
    return content


def with_encrypted_column(table: pa.Table, name: str) -> bytes:
    """Return a file with a readable footer and one encrypted column."""
    configuration = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": [name]}, plaintext_footer=True)
    properties = pe.CryptoFactory(_Keys).file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    return written(table, encryption_properties=properties)


class _Keys(pe.KmsClient):
    """Keys that are stored as they are."""

    def __init__(self, _: pe.KmsConnectionConfig):
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> str:
        return base64.b64encode(key).decode()

    def unwrap_key(self, wrapped: str, _: str) -> bytes:
        return base64.b64decode(wrapped)


def undecoded(*texts: bytes | None) -> pa.Array:
    """Return texts whose bytes are not validated."""
    return pa.array(texts, pa.binary()).view(pa.string())


def _replaced(content: bytes, before: bytes, after: bytes) -> bytes:
    """Return the file with bytes of its footer replaced once."""
    length = int.from_bytes(content[-8:-4], "little")
    data, footer = content[: -8 - length], content[-8 - length : -8]
    assert footer.count(before) == 1, footer
    footer = footer.replace(before, after)
    return data + footer + len(footer).to_bytes(4, "little") + b"PAR1"
