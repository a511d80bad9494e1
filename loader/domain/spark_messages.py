"""Messages of Spark and Java in logs, without the values of rows that they quote.

A line of a log can have 256 KB, and the worker's heartbeats wait while it is searched: each pattern here takes a time
that is proportional to the length, whatever the text.
"""

import re

LEFT_OUT = "[message left out]"
# Spark's error conditions, such as [CAST_INVALID_INPUT], and exceptions of Java whose messages quote what was parsed.
_QUOTING = re.compile(
    r"\[[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)*\]"
    r"|\b(?:NumberFormat|DateTime|DateTimeParse|Arithmetic|JsonParse|JsonMapping|MismatchedInput|InvalidFormat"
    r"|StreamConstraints|TextParsing|SAXParse|XMLStream|BadRecord|QueryExecution|PSQL|BatchUpdate"
    r"|SQLIntegrityConstraintViolation)Exception:"
)
_CAUSE = re.compile(r"(?=\r?\n[ \t]*(?:Caused by|Suppressed): (?:\w+\.)+[\w$]+(?:[:\s]|$))")
_SQLSTATE = re.compile(r" ?\bSQLSTATE: [0-9A-Z]{5}\b")
_TRACE_LINE = re.compile(
    r"[ \t]*+(?:at [^\s()]+\([^()\n]*\)(?: ~?\[[^\[\]\n]*\])?|\.\.\. \d+ (?:more|common frames omitted)"
    r"|Driver stacktrace:)?[ \t\r]*"
)


def without_quoted_values(text: str) -> str:
    """Return a log text in which conditions and exceptions stay, without those of their messages that quote values."""
    return "".join(_without_message(part) for part in _CAUSE.split(text))


def _without_message(text: str) -> str:
    """Return the text of one exception without a message that quotes values.

    The message of a condition ends at its last SQLSTATE. Any other ends at the last line that is not one of a stack
    trace: a value that it quotes may have such texts as well.
    """
    quoting = _QUOTING.search(text)
    if quoting is None:
        return text
    states = list(_SQLSTATE.finditer(text, quoting.end())) if quoting[0].endswith("]") else []
    if not states:
        return f"{text[: quoting.end()]} {LEFT_OUT}{_trace(text[quoting.end() :])}"
    _, line_end, rest = text[states[-1].end() :].partition("\n")
    return f"{text[: quoting.end()]} {LEFT_OUT}{states[-1][0]}{line_end}{_without_message(rest)}"


def _trace(text: str) -> str:
    """Return the lines of a stack trace with which a text ends, each after its line break."""
    first, *lines = text.split("\n")
    kept = len(lines)
    while kept and _TRACE_LINE.fullmatch(lines[kept - 1]):
        kept -= 1
    return "".join(f"\n{line}" for line in lines[kept:])
