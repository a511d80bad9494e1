"""Parser of JSON request bodies."""

import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from elevata.core import strict_json

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class StrictJson(JSONParser):
    """Parser of strict JSON, whose texts every database can store.

    It refuses repeated names, NaN and infinity, and texts with NUL or half of a surrogate pair.
    """

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            read = strict_json.loads(stream.read().decode("utf-8"))
            _must_be_storable(read)
        except RecursionError:
            raise ParseError("JSON parse error: nested too deeply") from None
        except ValueError as error:
            raise ParseError(f"JSON parse error: {error}") from None
        return read


def is_storable(text: str) -> bool:
    """Return True if every supported database can store the text."""
    return not _UNSTORABLE.search(text)


def _must_be_storable(value: Any) -> None:
    if isinstance(value, str):
        if not is_storable(value):
            raise ParseError("JSON parse error: a text holds NUL or half of a surrogate pair, which cannot be stored.")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _must_be_storable(name)
            _must_be_storable(item)
    elif isinstance(value, list):
        for item in value:
            _must_be_storable(item)
