"""Shared template tags and SQL highlighting."""

import re
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from elevata.core.installation import user_command
from elevata.core.words import name_parts, noun_for
from elevata.lists.columns import Column
from elevata.web.graph import LAYERS
from elevata.web.line_differences import Line, line_differences

# Highlighted SQL is HTML with classes for keywords, names, strings, numbers, comments and placeholders.


_WORDS = """
    add all alter and as asc between by case cast column columns comment create cross delete desc distinct drop
    else end except exists false from full group having if in inner insert intersect into is join left like limit
    location matched merge not null on or order outer overwrite partitioned rename replace right select set source
    table target tblproperties then to true type union unset update using values view when where with
    array bigint binary boolean date decimal double float int integer smallint string timestamp tinyint varchar
"""
_KEYWORDS = frozenset(_WORDS.split())
_TOKEN = re.compile(
    r"(?P<c>--[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<p>\{\{[^{}]*\}\})"
    r"|(?P<s>'(?:[^'\\]|\\.|'')*+(?:'|\Z))"
    r"|(?P<n>`(?:[^`]|``)*+(?:`|\Z)|\"(?:[^\"]|\"\")*+(?:\"|\Z))"
    r"|(?P<d>\b\d+(?:\.\d+)?\b)"
    r"|(?P<word>[^\W\d]\w*)",
    re.DOTALL,
)


def highlight(sql: str) -> SafeString:
    """Return escaped SQL with a span around each highlighted token."""
    parts: list[str] = []
    at = 0
    for match in _TOKEN.finditer(sql):
        parts.append(escape(sql[at : match.start()]))
        at = match.end()
        kind, text = match.lastgroup, escape(match.group())
        if kind == "word":
            kind = "k" if match.group().lower() in _KEYWORDS else None
        parts.append(f'<span class="{kind}">{text}</span>' if kind else text)
    parts.append(escape(sql[at:]))
    return mark_safe("".join(parts))


register = template.Library()


@register.simple_tag(name="user_command")
def user_command_tag(name: str) -> str:
    """Return the command by which users of this installation run setup, demo or serve."""
    return user_command(name)


@register.simple_tag
def icon(name: str) -> SafeString:
    """Render a decorative icon of the sprite that set-up creates from elevata/bootstrap/icons.txt."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#tabler-{}"></use></svg>',
        static("vendor/tabler/icons.svg"),
        name,
    )


@register.simple_block_tag
def copy_button(content: str, *of: object, autofocus: bool = False) -> SafeString:
    """Render a button that copies the text of an element, whose id are the joined parts ``of``."""
    return format_html(
        '<button class="btn btn-sm" type="button" data-copy="{}" aria-label="{}"{}>'
        '{}<span data-copy-label aria-live="polite">Copy</span></button>',
        "".join(map(str, of)),
        content,
        mark_safe(" autofocus") if autofocus else "",
        icon("copy"),
    )


@register.filter
def parts(name: Any) -> SafeString:
    """Render a name that breaks between its parts only: after a dot, underscore, slash or hyphen, and in long parts."""
    return format_html('<span class="parts">{}</span>', mark_safe("<wbr>".join(map(escape, name_parts(str(name))))))


@register.simple_block_tag
def nonempty(content: SafeString, element: str, css: str = "", label: str = "") -> SafeString:
    """Render ``content`` in an element (``h1``) with a CSS class and an ARIA label; nothing if it is empty."""
    if not content.strip():
        return SafeString()
    attributes = (("class", css), ("aria-label", label))
    given = format_html_join("", ' {}="{}"', ((name, value) for name, value in attributes if value))
    return format_html("<{}{}>{}</{}>", element, given, content, element)


@register.simple_tag
def panel_head(heading: str, id: str, hint: str = "") -> SafeString:
    """Render the head of a panel with its heading, whose id names the panel, and a hint beside it."""
    beside = format_html('<span class="soft">{}</span>', hint) if hint else ""
    return format_html('<div class="panel-head"><h2 id="{}">{}</h2>{}</div>', id, heading, beside)


@register.simple_block_tag
def fact(content: SafeString, label: str, css: str = "") -> SafeString:
    """Render a label and its value in a list of facts; ``css`` is the class of the value."""
    attribute = format_html(' class="{}"', css) if css else ""
    return format_html("<div><dt>{}</dt><dd{}>{}</dd></div>", label, attribute, content)


_NOTE_ICONS = {"error": "alert-circle", "warning": "alert-triangle", "success": "circle-check"}


@register.simple_block_tag
def note(content: SafeString, level: str = "", symbol: str = "", role: str = "") -> SafeString:
    """Render a note of a level (``error``, ``warning``, ``success``) with the level's icon or another ``symbol``."""
    css = f"note note-{level}" if level else "note"
    attribute = format_html(' role="{}"', role) if role else ""
    image = icon(symbol or _NOTE_ICONS.get(level, "info-circle"))
    return format_html('<div class="{}"{}>{} <div>{}</div></div>', css, attribute, image, content)


@register.simple_block_tag
def empty_page(content: SafeString, heading: str) -> SafeString:
    """Render the place of rows that do not exist yet: a heading and a paragraph."""
    return format_html('<div class="empty-page"><h2>{}</h2><p>{}</p></div>', heading, content)


@register.inclusion_tag("parts/tab.html", takes_context=True)
def tab(context: dict, name: str, address: str, symbol: str, label: str, has_pages: bool = False) -> dict:
    """Return the context of a tab, which is the current one if the page's ``tab`` is its name.

    A tab that ``has_pages`` is current on their addresses, too. With ``swaps`` in the context, tabs replace only a part
    of the page, and the current one has the focus afterwards.
    """
    is_page = not has_pages or context["request"].path == address
    current = "" if context.get("tab") != name else "page" if is_page else "true"
    shown = {"address": address, "symbol": symbol, "label": label}
    return shown | {"current": current, "swaps": context.get("swaps")}


@register.inclusion_tag("parts/sub_tab.html", takes_context=True)
def sub_tab(context: dict, name: str, address: str, symbol: str, label: str) -> dict:
    """Return the context of a tab below others, which is the current one if the page's ``view`` is its name."""
    return {"address": address, "symbol": symbol, "label": label, "is_current": context.get("view") == name}


@register.simple_tag(name="line_differences")
def line_differences_tag(before: Any, after: Any) -> tuple[Line, ...]:
    """Return the changed lines of two texts, if one of them has several lines; else nothing."""
    if not (isinstance(before, str) and isinstance(after, str)) or "\n" not in before + after:
        return ()
    return line_differences(before, after)


@register.simple_tag
def state(status: str, label: str = "") -> SafeString:
    """Render a state as a coloured dot and its label."""
    return format_html('<span class="state state-{}">{}</span>', status, label or status)


@register.simple_tag
def layer(name: str) -> SafeString:
    """Render a layer's name in the layer's colour."""
    return format_html('<span class="layer layer-{}">{}</span>', name, LAYERS.get(name, name))


@register.simple_tag
def layer_of(dataset: Any) -> SafeString:
    """Render the layer of a target dataset; of a history, ``history``."""
    return layer("history" if dataset.history_of_id else dataset.schema.layer)


@register.filter
def duration(seconds: float | None) -> str:
    """Format a duration: ``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 10 min``; empty for None."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


@register.filter
def number(value: Any) -> str:
    """Format a count with thousands separators; empty for None."""
    if value is None or value == "":
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


@register.filter
def noun_beside(plural: str, count: int) -> str:
    """Return a plural noun as it is beside a count."""
    return noun_for(count, plural)


@register.filter
def at_second(instant: Any) -> str:
    """Format an instant in UTC: ``2026-11-21 08:15:00``."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


@register.filter
def ago(instant: Any) -> SafeString:
    """Render an instant in UTC; ``page/clock.js`` shows how long ago it is, with the time in the user's zone on hover.

    Times that are data, like the begin of a version, are shown by ``at_second``: they are never relative.
    """
    if not instant:
        return SafeString("")
    return format_html(
        '<time datetime="{}" title="{} UTC" data-ago>{} UTC</time>',
        instant.isoformat(),
        at_second(instant),
        at_second(instant),
    )


@register.filter
def iso(instant: Any) -> str:
    return instant.isoformat() if instant else ""


@register.filter
def at(mapping: dict, key: str) -> Any:
    """Return the value of a mapping for a key; None without a mapping."""
    return mapping.get(key) if mapping else None


@register.filter
def sql(text: str) -> SafeString:
    return highlight(text)


@register.inclusion_tag("parts/refusal.html")
def refusal(error: dict | None, level: str = "error") -> dict:
    """Return the context of a recorded refusal: message, place, count, samples, hint."""
    return {"error": error, "level": level}


@register.inclusion_tag("parts/pager.html", takes_context=True)
def pager(context: dict, page: Any, noun: str) -> dict:
    """Return the context of a pager: the page's rows, their total, and links with the address's filters.

    The CSV file is that of the list that the page is about.
    """
    has_csv = context.get("has_csv", False) and page is context.get("page")
    return {"page": page, "noun": noun, "request": context["request"], "has_csv": has_csv}


@register.inclusion_tag("parts/headings.html", takes_context=True)
def headings(context: dict, *labels: str, before: str = "", after: str = "") -> dict:
    """Return the context of a table's head: with these labels, else with the columns of the list.

    ``"Rows|num"`` is the label *Rows* of a column of numbers. ``before`` and ``after`` are the hidden labels of a first
    and a last column of inputs and buttons. A click on a list's column sorts by it, a second turns the order.
    """
    page = {"before": before, "after": after, "request": context.get("request")}
    if labels:
        pairs = (label.partition("|") for label in labels)
        return page | {"headings": [{"column": {"label": label, "kind": kind}} for label, _, kind in pairs]}
    chosen = context["request"].GET.get("ordering", "")
    return page | {"headings": [_heading(column, chosen) for column, shown in context["tools"].columns if shown]}


@register.simple_block_tag(takes_context=True)
def cell(context: dict, content: SafeString, label: str, css: str = "") -> SafeString:
    """Render a cell of the column with this label, unless the user hides it. Raise KeyError for an unknown label.

    Where lists are stacked, an empty cell takes no line.
    """
    tools = context.get("tools")
    if tools and not tools.is_shown[label]:
        return SafeString()
    classes = " ".join(filter(None, (css, "" if content.strip() else "nothing-there")))
    attribute = format_html(' class="{}"', classes) if classes else ""
    return format_html('<td data-label="{}"{}>{}</td>', label, attribute, content)


def _heading(column: Column, chosen: str) -> dict:
    is_descending = chosen.startswith("-")
    if not column.sort or chosen.removeprefix("-") != column.sort:
        following = f"{'-' if column.descends else ''}{column.sort}"
        return {"column": column, "direction": "", "next": following}
    direction = "descending" if is_descending else "ascending"
    return {"column": column, "direction": direction, "next": f"{'' if is_descending else '-'}{column.sort}"}


@register.filter
def span(length: Any) -> str:
    """Format a timedelta by its two largest units: ``1 year 34 days``, ``3 h 20 min``."""
    seconds = int(length.total_seconds())
    parts = []
    for size, singular, plural in (
        (31_536_000, "year", "years"),
        (86_400, "day", "days"),
        (3_600, "h", "h"),
        (60, "min", "min"),
        (1, "s", "s"),
    ):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {singular if count == 1 else plural}")
    return " ".join(parts[:2]) or "no time"


@register.simple_block_tag(takes_context=True)
def filters(
    context: dict, content: SafeString, chosen: Any, route: str, label: str = "Search", rows: str = "rows", **key: Any
) -> str:
    """Render the form of a list's filters with ``content`` as its fields; each change replaces the element ``rows``.

    ``label`` is the label of the search field, empty for a list without one. The list's saved filters and columns
    (``tools``) are below.
    """
    request = context["request"]
    of_page = {name: context.get(name) for name in ("tools", "user", "csrf_token")}
    form = {
        "content": content,
        "form": chosen.form,
        "address": reverse(route, kwargs=key),
        "label": label,
        "rows": rows,
    }
    page = {"back": request.get_full_path(), "query": request.META.get("QUERY_STRING", "")}
    return render_to_string("parts/filters.html", of_page | form | page)


@register.inclusion_tag("parts/filter_select.html")
def filter_select(field: Any, label: str, options: Any = None, empty: str = "all") -> dict:
    """Render a filter as a select with ``options`` (texts, or pairs of value and label), by default its choices."""
    choices = field.field.choices if options is None else options
    pairs = [(item, item.replace("_", " ")) if isinstance(item, str) else item for item in choices]
    return {"field": field, "label": label, "options": [pair for pair in pairs if pair[0] != ""], "empty": empty}


@register.inclusion_tag("parts/filter_text.html")
def filter_text(field: Any, label: str, type: str = "text", suggestions: str = "", placeholder: str = "") -> dict:
    """Render a filter as an input; ``suggestions`` is the id of a datalist."""
    return {"field": field, "label": label, "type": type, "suggestions": suggestions, "placeholder": placeholder}
