"""Names that most engines need quotes for, and the rules of an environment about them."""

import re

ALLOW, ASK, REFUSE = "allow", "ask", "refuse"

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_WORDS = frozenset(
    """
    all alter and any as asc between both by case cast check collate column constraint create cross current_date
    current_time current_timestamp current_user default delete desc distinct drop else end except exists false fetch
    for foreign from full grant group having in inner insert intersect into is join leading left like limit natural
    not null offset on or order outer primary references right select session_user set some table then to trailing
    true union unique update user using values when where with
    """.split()  # noqa: SIM905
)


def needs_quotes(name: str) -> bool:
    """Return True for a name that is a reserved word, or has other characters than plain identifiers."""
    return bool(quoting_reason(name))


def quoting_reason(name: str) -> str:
    """Return the reason why most engines need quotes for a name; empty if they do not."""
    if name.lower() in _RESERVED_WORDS:
        return "it is a reserved word"
    if _PLAIN_NAME.fullmatch(name):
        return ""
    if name[:1].isdigit():
        return "it begins with a digit"
    if " " in name:
        return "it has a space"
    return "it has other characters than letters, digits and _"
