"""Pages of help: chapters of the documentation, and the glossary."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from elevata.core.installation import PROJECT_DIR
from elevata.page_help import docs_address
from elevata.web.search import PageEntry, PageKind
from elevata.web.views import TemplatePage

DOCS = PROJECT_DIR / "docs"
GLOSSARY = "use/glossary.md"
SEARCHED = PageKind(
    "page", "Page", (PageEntry("Glossary", "glossary", "words terms meaning documentation docs", names=("help",)),)
)
_WORD = re.compile(r"^\* \*\*(?P<word>[^*]+)\*\*: (?P<meaning>.+)$", re.MULTILINE)
_HEADING = re.compile(r"(#+) (.+)")
_DRAWING = re.compile(r"^```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^( *)\* ", re.MULTILINE)
_CELLS = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Word:
    """Word of the glossary with its meaning, which is safe HTML."""

    word: str
    meaning: SafeString

    @property
    def anchor(self) -> str:
        """Return the part of the page's address that leads to the word."""
        return slugify(self.word)


@dataclass(frozen=True)
class Block:
    """Heading, table or text of a chapter; cells and texts are safe HTML, and the first row of a table its head."""

    kind: str
    text: SafeString
    anchor: str = ""
    rows: tuple[tuple[SafeString, ...], ...] = ()


@lru_cache(maxsize=1)
def chapters() -> frozenset[str]:
    """Return the names of the documentation's files, like ``use/sources.md``."""
    return frozenset(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@lru_cache(maxsize=1)
def glossary() -> tuple[Word, ...]:
    """Return the words of the glossary, in its order."""
    text = (DOCS / GLOSSARY).read_text(encoding="utf-8")
    return tuple(Word(match["word"], _inline(match["meaning"], GLOSSARY)) for match in _WORD.finditer(text))


class Glossary(TemplatePage):
    """Page of the words that the product uses."""

    template_name = "help/glossary.html"

    def context(self) -> dict[str, Any]:
        return {"words": glossary(), "docs_index": docs_address("README.md")}


class DocsPage(TemplatePage):
    """Page of a chapter of the documentation.

    Headings, tables, links and code are shown as such; other marks of Markdown stay as they are written.
    """

    template_name = "help/document.html"

    def context(self) -> dict[str, Any]:
        name = self.kwargs["name"]
        if name not in chapters():
            raise Http404
        blocks = tuple(_blocks((DOCS / name).read_text(encoding="utf-8"), name))
        return {"title": blocks[0].text, "blocks": blocks[1:], "docs_index": docs_address("README.md")}


def _blocks(text: str, name: str) -> Iterator[Block]:
    """Yield the blocks of a chapter; sources of drawings are left out."""
    text = _DRAWING.sub("", text)
    pending: list[str] = []
    table: list[tuple[SafeString, ...]] = []
    is_code = False
    for line in [*text.splitlines(), "# "]:
        heading = None if is_code else _HEADING.match(line)
        is_row = not is_code and line.startswith("|")
        if table and not is_row:
            yield Block("table", mark_safe(""), rows=tuple(table))
            table = []
        if pending and (heading or is_row or line.startswith("```")):
            yield from _text("\n".join(pending), name, is_code=is_code)
            pending = []
        if line.startswith("```"):
            is_code = not is_code
        elif heading:
            yield Block(f"h{min(len(heading[1]), 4)}", _inline(heading[2], name), anchor_of(heading[2]))
        elif is_row:
            cells = tuple(_inline(cell.strip().replace("\\|", "|"), name) for cell in _CELLS.split(line.strip()[1:-1]))
            if not all(set(cell) <= set("-: ") for cell in cells):
                table.append(cells)
        else:
            pending.append(line)
    if pending:
        yield from _text("\n".join(pending), name, is_code=is_code)


def _text(text: str, name: str, *, is_code: bool) -> Iterator[Block]:
    if is_code:
        yield Block("code", escape(text))
    elif text.strip():
        yield Block("text", _inline(_BULLET.sub(r"\1• ", text.strip("\n")), name))


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _inline(text: str, name: str) -> SafeString:
    """Return the text as HTML with its links, code and emphasis."""

    def link(match: re.Match[str]) -> str:
        path, hash_mark, anchor = match[2].partition("#")
        if match[2].startswith(("https:", "http:")):
            return f'<a href="{match[2]}">{match[1]}</a>'
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        if target not in chapters():
            return match[1]
        return f'<a href="{reverse("docs_page", args=[target])}{hash_mark}{anchor}">{match[1]}</a>'

    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    html = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", html)
    html = re.sub(r"(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])", r"<em>\1</em>", html)
    return mark_safe(_LINK.sub(link, html.replace("&lt;kbd&gt;", "<kbd>").replace("&lt;/kbd&gt;", "</kbd>")))
