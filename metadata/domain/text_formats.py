"""Formats of types that are stored as text, for delivered and for stored values.

``TEXTS`` are patterns of whole texts without the blanks around them, valid in every database that has regular
expressions. ``PATTERNS`` are those of Java and Python. They contain no backslash, which SQL literals interpret, and end
with a lookahead, because ``$`` would match before a final line feed.
"""

from metadata.domain.types import TIME, UUID

_END = "(?!.)"
TEXTS = {
    TIME: "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6}0*)?)?",
    UUID: "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
}
PATTERNS = {name: f"(?s)^{text}{_END}" for name, text in TEXTS.items()}
# Characters around a value that do not belong to it. Python's ``strip`` would take Unicode's other blanks, too.
BLANKS = " \t\r\n"
# A timestamp or a time of day up to its sixth decimal.
TO_MICROSECONDS = "^[ \t\r\n]*(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}"
# Spark's parser stops after the first value of a text. Inside of these frames, further text makes it fail.
JSON_ARRAY = ("[", "]")
JSON_OBJECT = ('{"":', "}")
STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
# Start of variables and settings that Spark and Hadoop substitute: switched off where SQL is parsed, and refused in
# every text that becomes part of SQL or of a setting.
VARIABLE = "${"
