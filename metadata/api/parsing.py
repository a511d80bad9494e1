"""Bodies as JSON, and no worse: nothing that a database could choke on, and no nest without a bottom."""

import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

_TOO_DEEP = "JSON parse error: nested too deeply."
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class StrictJson(JSONParser):
    """JSON whose texts can be stored everywhere: without NUL and halves of surrogate pairs."""

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            read = super().parse(stream, media_type, parser_context)
            _must_be_storable(read)
        except RecursionError:
            raise ParseError(_TOO_DEEP) from None
        return read


def is_storable(text: str) -> bool:
    """Whether every database takes the text."""
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
