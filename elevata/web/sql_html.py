"""SQL as HTML: keywords, names, strings, numbers, comments and placeholders told apart."""

import re

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

_WORDS = """
    add all alter and as asc between by case cast column columns comment create cross delete desc distinct drop
    else end except exists false from full group having if in inner insert intersect into is join left like limit
    location matched merge not null on or order outer overwrite partitioned rename replace right select set source
    table target tblproperties then to true type union unset update using values view when where with
    array bigint binary boolean date decimal double float int integer smallint string timestamp tinyint varchar
"""
_KEYWORDS = frozenset(_WORDS.split())
_TOKEN = re.compile(
    r"(?P<c>--[^\n]*|/\*.*?\*/)"
    r"|(?P<p>\{\{.*?\}\})"
    r"|(?P<s>'(?:[^'\\]|\\.|'')*')"
    r"|(?P<n>`(?:[^`]|``)*`)"
    r"|(?P<d>\b\d+(?:\.\d+)?\b)"
    r"|(?P<word>[^\W\d]\w*)",
    re.DOTALL,
)


def highlight(sql: str) -> SafeString:
    """``sql`` with a span around each token that has a colour; everything is escaped."""
    parts, at = [], 0
    for match in _TOKEN.finditer(sql):
        parts.append(escape(sql[at : match.start()]))
        at = match.end()
        kind, text = match.lastgroup, escape(match.group())
        if kind == "word":
            kind = "k" if match.group().lower() in _KEYWORDS else None
        parts.append(f'<span class="{kind}">{text}</span>' if kind else text)
    parts.append(escape(sql[at:]))
    return mark_safe("".join(parts))
