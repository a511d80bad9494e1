"""Texts by which values of the types uuid, time and json are compared.

Their stored form is the text as it was first delivered; many texts mean the same value. Two values are equal if their
compared texts are: of a uuid in lower case, of a time with seconds and without zeros at the end of the fraction, of
json with sorted keys, without white space, with numbers and escapes in one form. ``loader.engine.compared_texts``
computes the same in Spark.
"""

import re
from collections.abc import Callable

from loader.domain.historization.compared_json import compared_json
from metadata.domain.text_formats import PATTERNS
from metadata.domain.types import JSON, TIME, UUID

BY_VALUE = frozenset({UUID, TIME, JSON})


def compared_text(text: str, type_name: str) -> str:
    """Return the text by which a value of this type is compared; of other types, and of invalid values, the text."""
    compare = _COMPARED.get(type_name)
    return compare(text) if compare else text


class ComparedText(str):
    """Delivered text of a uuid, a time or a json value, with the text by which it is compared."""

    compared: str

    @classmethod
    def of(cls, text: str, type_name: str) -> "ComparedText":
        value = cls(text)
        value.compared = compared_text(text, type_name)
        return value


def _uuid(text: str) -> str:
    return text.lower()


def _time(text: str) -> str:
    """Return ``hh:mm`` with seconds, and a fraction without zeros at its end."""
    if not re.match(PATTERNS[TIME], text):
        return text
    if len(text) == len("hh:mm"):
        return f"{text}:00"
    return text.rstrip("0").rstrip(".") if "." in text else text


_COMPARED: dict[str, Callable[[str], str]] = {UUID: _uuid, TIME: _time, JSON: compared_json}
