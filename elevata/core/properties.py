"""Java properties: the format of Spark's settings files (``spark-defaults.conf``)."""

import re
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\r|\n")
_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class Property:
    """Property with the number of its first line."""

    name: str
    value: str
    line: int


class BadProperties(Exception):
    """Error of an invalid escape sequence; its message has the line number."""


def parse_properties(text: str) -> list[Property]:
    """Return the properties of a text in order. Their values have no white space around them, as in Spark.

    A name ends at the first space, ``=`` or ``:`` without a backslash before it. A line that ends with a backslash
    continues on the next line. Lines that begin with ``#`` or ``!`` are comments. Raise BadProperties.
    """
    properties = []
    for number, line in _logical_lines(text):
        end = _name_end(line)
        rest = line[end:].lstrip(_SPACE)
        if rest[:1] in ("=", ":"):
            rest = rest[1:]
        properties.append(Property(_unescape(line[:end], number), _unescape(rest, number).strip(), number))
    return properties


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    continues = False
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_SPACE)
        if not continues and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        is_open, line = backslashes % 2 == 1, line[:-1] if backslashes % 2 else line
        if continues:
            lines[-1] = (lines[-1][0], lines[-1][1] + line)
        else:
            lines.append((number, line))
        continues = is_open
    return lines


def _name_end(line: str) -> int:
    escaped = False
    for place, character in enumerate(line):
        if not escaped and character in _SPACE + "=:":
            return place
        escaped = character == "\\" and not escaped
    return len(line)


def _unescape(text: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        code, other = match.groups()
        if code is not None:
            return chr(int(code, 16))
        if other == "u":
            raise BadProperties(f"line {line}: \\u needs four hexadecimal digits")
        return _ESCAPES.get(other, other)

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.?))", character, text, flags=re.S)
