"""Mentions and links in the text of a comment."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

MAX_LENGTH, MAX_MENTIONS = 5_000, 20
TEXT, LINK, MENTION = "text", "link", "mention"

_MARKED = re.compile(r"(?P<link>https?://[^\s<>\"]+)|(?<![\w@.+-])@(?P<name>[\w.@+-]{1,150})", re.IGNORECASE)
# Signs at the end of an address or a name that belong to the sentence.
_ENDS = ".,;:!?)]}'*-+@"


class Part(NamedTuple):
    """Part of a text: its kind (text, link or mention) and its characters."""

    kind: str
    text: str


def candidates(text: str) -> list[tuple[str, ...]]:
    """Return for each ``@name`` the user names that it can be: as written, and without the signs at its end."""
    names = (match["name"] for match in _MARKED.finditer(text) if match["name"])
    return list(dict.fromkeys(_readings(name) for name in names))


def mentioned(text: str, users: Collection[str]) -> list[str]:
    """Return the names among ``users`` that the text mentions, in order."""
    chosen = (next((name for name in names if name in users), "") for names in candidates(text))
    return list(dict.fromkeys(name for name in chosen if name))


def parts(text: str, users: Collection[str]) -> Iterator[Part]:
    """Yield the parts of a text; a name that is not among ``users`` is text."""
    end = 0
    for match in _MARKED.finditer(text):
        if match["link"]:
            kind, shown = LINK, match["link"].rstrip(_ENDS)
        else:
            kind, name = MENTION, next((name for name in _readings(match["name"]) if name in users), "")
            shown = f"@{name}" if name else ""
        if shown:
            yield Part(TEXT, text[end : match.start()])
            yield Part(kind, shown)
            end = match.start() + len(shown)
    yield Part(TEXT, text[end:])


def _readings(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reading for reading in (name, name.rstrip(_ENDS)) if reading))
