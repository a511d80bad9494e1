"""Placeholder that Debezium sends for a value that it did not read."""

import base64
import hashlib
import json
import struct
import uuid
from dataclasses import dataclass, field
from typing import Any

_GEOMETRY = bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")
_GEOGRAPHY = bytes.fromhex("0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")
_POINT = struct.pack("<BIdd", 1, 1, -99_999_999, -99_999_999)
_HEX = "hex:"


@dataclass(frozen=True)
class Placeholder:
    """Placeholder of a value that the database did not log, in the form that each type of column gives it.

    ``texts`` are whole values, ``parts`` are parts of the JSON text of an object.
    """

    texts: frozenset[str] = field(default_factory=frozenset)
    parts: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, configured: str) -> "Placeholder":
        """Return the forms of the connector's setting ``unavailable.value.placeholder``."""
        is_hex = configured.startswith(_HEX)
        content = bytes.fromhex(configured.removeprefix(_HEX)) if is_hex else configured.encode()
        text = content.decode(errors="replace")
        encoded = base64.b64encode(content).decode()
        of_bytes = (encoded, base64.urlsafe_b64encode(content).decode(), content.hex())
        numbers = [byte - 256 if byte > 127 else byte for byte in content]  # Java's bytes have a sign
        digest = hashlib.md5(content, usedforsecurity=False).digest()
        version_3 = str(uuid.UUID(bytes=digest, version=3))
        documents = ([text], *([form] for form in of_bytes), numbers, [version_3], {text: text})
        texts = {text, version_3, *of_bytes, *map(_compact, documents)}
        points = (base64.b64encode(wkb).decode() for wkb in (_GEOMETRY, _GEOGRAPHY, _POINT))
        return cls(frozenset(texts), frozenset(f'"wkb":"{wkb}"' for wkb in points))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
