"""Bodies as JSON, and no worse: nothing that a database could choke on, and no nest without a bottom."""

import codecs
import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.utils import json

_TOO_DEEP = "JSON parse error: nested too deeply."
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class StrictJson(JSONParser):
    """JSON of one meaning whose texts can be stored everywhere.

    No name is given twice, no number is NaN or infinite, no text holds NUL or half of a surrogate pair.
    """

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            read = json.load(codecs.getreader("utf-8")(stream), object_pairs_hook=_object)
            _must_be_storable(read)
        except RecursionError:
            raise ParseError(_TOO_DEEP) from None
        except ValueError as error:
            raise ParseError(f"JSON parse error: {error}") from None
        return read


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object; ValueError if one is given twice, for programs differ in which one counts."""
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice.")
    return read


def is_storable(text: str) -> bool:
    """Return whether every supported database can store the text."""
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
