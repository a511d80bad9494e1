"""Formats of types that are stored as text, for delivered and for stored values.

The patterns are valid in Java's and Python's regular expressions. They contain no backslash, which SQL
literals interpret, and end with a lookahead, because ``$`` would match before a final line feed.
"""

from metadata.domain.types import TIME, UUID

_END = "(?!.)"
PATTERNS = {
    TIME: f"(?s)^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{{1,6}})?)?{_END}",
    UUID: f"(?s)^[0-9a-fA-F]{{8}}-([0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}{_END}",
}
# A timestamp up to its sixth decimal.
TO_MICROSECONDS = "^[ \t\r\n]*[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}"

# Spark's parser is content when the first value of a text ends. What follows it breaks one of these frames.
JSON_ARRAY = ("[", "]")
JSON_OBJECT = ('{"":', "}")
STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
