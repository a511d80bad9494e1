"""Pages of help: chapters of the documentation, and the glossary."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

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


@dataclass(frozen=True)
class Word:
    """Word of the glossary with its meaning, which is safe HTML."""

    word: str
    meaning: SafeString

    @property
    def anchor(self) -> str:
        """Return the part of the page's address that leads to the word."""
        return slugify(self.word)


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
    """Page of a chapter of the documentation. Drawings and pictures are left out."""

    template_name = "help/document.html"

    def context(self) -> dict[str, Any]:
        name = self.kwargs["name"]
        if name not in chapters():
            raise Http404
        title, body = _chapter(name)
        return {"title": title, "body": body, "docs_index": docs_address("README.md")}


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.add_render_rule("table_open", _table_open)
    markdown.add_render_rule("table_close", _table_close)
    return markdown


def _table_open(*_: Any) -> str:
    return '<div class="table-scroll" tabindex="0" role="group" aria-label="Table"><table class="table table-dense">\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _chapter(name: str) -> tuple[str, SafeString]:
    """Return the title of a chapter and the rest of it as HTML."""
    markdown = _markdown()
    tokens = markdown.parse((DOCS / name).read_text(encoding="utf-8"))
    tokens = [token for token in tokens if not (token.type == "fence" and token.info == "mermaid")]
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", anchor_of(_plain(inline)))
        if inline.type == "inline":
            inline.children = list(_within_pages(inline.children or [], name))
    title = next(index for index, token in enumerate(tokens) if token.type == "heading_open")
    rest = tokens[:title] + tokens[title + 3 :]
    html = markdown.renderer.render(rest, markdown.options, {})
    # What scrolls sideways is reached by keyboard.
    return _plain(tokens[title + 1]), mark_safe(html.replace("<pre>", '<pre tabindex="0">'))


def _inline(text: str, name: str) -> SafeString:
    """Return a text of a chapter as HTML."""
    markdown = _markdown()
    (token,) = markdown.parseInline(text)
    token.children = list(_within_pages(token.children or [], name))
    return mark_safe(markdown.renderer.render([token], markdown.options, {}))


def _within_pages(tokens: Iterable[Token], name: str) -> Iterator[Token]:
    """Yield the parts of a text with links to pages of chapters; links to other files are their text."""
    is_shown = True
    for token in tokens:
        if token.type == "link_open":
            address = _page_of(str(token.attrGet("href")), name)
            is_shown = bool(address)
            token.attrSet("href", address)
        if token.type != "image" and (is_shown or token.type not in ("link_open", "link_close")):
            yield token


def _page_of(link: str, name: str) -> str:
    """Return the address of a link in a chapter; empty for one to a file that is no chapter."""
    if link.startswith(("https:", "http:")):
        return link
    path, hash_mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
    return f"{reverse('docs_page', args=[target])}{hash_mark}{anchor}" if target in chapters() else ""


def _plain(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
