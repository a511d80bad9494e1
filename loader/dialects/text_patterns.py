"""Regular expressions of texts that are values of a type, in the syntax that all databases with such expressions share.

A pattern is that of a whole text without the blanks around it; it has no backslash, no lookahead and no group without a
number. The product's own rules are in ``loader.engine.conversions``; a text that matches is one that they read. A whole
number or a decimal with an exponent, and an offset of 16 hours or more, match nothing and are refused.
"""

from loader.dialects.refusals import NotRendered
from metadata.domain.sources.value_formats import BLANKS, NumberFormat, TimeFormat
from metadata.domain.text_formats import TEXTS
from metadata.domain.types import TIME

_FOURTH = "(0[48]|[2468][048]|[13579][26])"  # two digits that are a multiple of four, without 00
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DAYS = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
_ZONE = "( ?(Z|UTC|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?))"

DATE = f"({_YEAR}-({_DAYS})|([0-9]{{2}}{_FOURTH}|{_FOURTH}00)-02-29)"
TIMESTAMP = f"{DATE}([T ]{TEXTS[TIME]}{_ZONE}?)?"
FLOAT = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?"
ODD_FLOAT = "([nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?)"
BINARY = "([0-9a-fA-F]{2})*"
FRACTION = "[0-9]{1,6}0{0,3}"
# Replacements that turn a text of TIMESTAMP into ``2024-01-31T10:00:00.5+05:30``, which every database reads alike.
TIMESTAMP_SPELLING = (
    (" ?(Z|UTC)$", "+00:00"),
    (" ([+-])", "\\1"),
    ("(:[0-9]{2}[0-9:.]*[+-][0-9]{2})([0-9]{2})$", "\\1:\\2"),
    ("^(.{10}[T ][0-9]{2}:[0-9]{2})([+-].*)?$", "\\1:00\\2"),
    ("^(.{10})$", "\\1T00:00:00"),
    ("^(.{10}[T ][0-9:.]+)$", "\\1+00:00"),
)

TRUE_WORDS = ("true", "t", "yes", "y", "1")
FALSE_WORDS = ("false", "f", "no", "n", "0")

# Widths of directives whose texts have one width only. %f is covered at the end of a format.
_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_FRACTION = "%f"
_REFUSED_IN_WORDS = "[]\\^"
# Letters up to here have one upper-case letter in every database, if Python has one.
_SIMPLE_LETTERS = "\u0250"


def decimal(precision: int, scale: int) -> str:
    """Return the pattern of numbers without exponent that need no more digits on either side of the point."""
    whole = precision - scale
    digits = f"0*[0-9]{{1,{whole}}}" if whole else "0+"
    fraction, alone = (f"[0-9]{{0,{scale}}}0*", f"[0-9]{{1,{scale}}}0*") if scale else ("0*", "0+")
    return f"[+-]?({digits}([.]{fraction})?|[.]{alone})"


def number(numbers: NumberFormat) -> str:
    """Return the pattern of numbers with declared separators, and of NaN and infinity. Raise NotRendered for signs."""
    if numbers.negative:
        raise NotRendered(f"negative numbers that are written with {numbers.negative} signs are not rearranged")
    grouped = f"|[0-9]{{1,3}}([{numbers.separators}][0-9]{{3}})+" if numbers.thousands else ""
    digits = f"([0-9]+{grouped})"
    return f"([+-]?{digits}?([{numbers.decimal}][0-9]+)?([eE][+-]?[0-9]+)?|{ODD_FLOAT})"


def word(text: str) -> str:
    """Return the pattern of a word in any case, of single characters and sets of them, which LIKE of T-SQL reads, too.

    Raise NotRendered for a character that patterns do not write alike.
    """
    return "".join(map(_either_case, text))


def _either_case(character: str) -> str:
    if character in _REFUSED_IN_WORDS or not character.isprintable():
        raise NotRendered(f"words of truth values with {character!r} have no pattern in every dialect")
    upper = character.upper()
    if len(upper) == 1 and upper != character < _SIMPLE_LETTERS and upper.lower() == character:
        return f"[{character}{upper}]"
    return character if character.isalnum() else f"[{character}]"


class TimePattern:
    """Pattern of a declared format, and the places of its parts: (first character from 1, width) by directive.

    ``pattern`` has single characters and sets of them only, which LIKE of T-SQL reads, too; ``with_fraction``: digits
    of the second follow it. Raise NotRendered for a format with a part whose width varies.
    """

    def __init__(self, declared: TimeFormat) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.with_fraction = declared.tokens[-1] == _FRACTION
        parts: list[str] = []
        place = 1
        for token in declared.tokens[:-1] if self.with_fraction else declared.tokens:
            if token.startswith("%") and token not in _WIDTHS:
                raise NotRendered(f"the format {declared.text!r} has {token}, whose text is not rearranged")
            width = _WIDTHS.get(token, 1)
            if token in _WIDTHS:
                self.places[token] = (place, width)
            parts.append(_token_pattern(token))
            place += width
        self.pattern, self.width = "".join(parts), place - 1


def _token_pattern(token: str) -> str:
    if token in _WIDTHS:
        return "[0-9]" * _WIDTHS[token]
    if token in _REFUSED_IN_WORDS or not token.isprintable() and token not in BLANKS:
        raise NotRendered(f"formats with {token!r} have no pattern in every dialect")
    return f"[{BLANKS if token in BLANKS else token}]"
