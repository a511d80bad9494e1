"""Messages of Spark and Java in logs, without the values of rows that they quote."""

import re

LEFT_OUT = "[message left out]"
# A message ends where a stack trace, its cause, the SQL at fault or the SQLSTATE begins.
_REST = r"(?:(?!\r?\n\s*at |\r?\n\s*Caused by|\r?\n\s*== |\s*SQLSTATE: ).)*"
# Spark's error conditions, such as [CAST_INVALID_INPUT], and exceptions of Java whose messages quote what was parsed.
_QUOTING = re.compile(
    r"(\[[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)*\]"
    r"|\b(?:NumberFormat|DateTime|DateTimeParse|Arithmetic|JsonParse|JsonMapping|MismatchedInput|InvalidFormat"
    r"|StreamConstraints|TextParsing|SAXParse|XMLStream|BadRecord|QueryExecution|PSQL|BatchUpdate"
    r"|SQLIntegrityConstraintViolation)Exception:)" + _REST,
    re.DOTALL,
)


def without_quoted_values(text: str) -> str:
    """Return a log text in which conditions and exceptions stay, without those of their messages that quote values."""
    return _QUOTING.sub(rf"\1 {LEFT_OUT}", text)
