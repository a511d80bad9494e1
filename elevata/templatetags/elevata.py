"""Shared template tags: icons, states, layers, durations, numbers, SQL."""

from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from architecture.report_places import here
from elevata.web import sql_html
from loader.models import DatasetRun
from loader.services.queries.read_work import readable_error
from metadata.domain.roles import Permission
from metadata.graph import LAYERS
from metadata.permissions import may

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite that set-up cuts from elevata/bootstrap/icons.txt; decoration only."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#tabler-{}"></use></svg>',
        static("vendor/tabler/icons.svg"),
        name,
    )


@register.simple_tag
def state(status: str, label: str = "") -> SafeString:
    """A state as a coloured dot and its word."""
    return format_html('<span class="state state-{}">{}</span>', status, label or status)


@register.simple_tag
def layer(name: str) -> SafeString:
    """A layer in its colour."""
    return format_html('<span class="layer layer-{}">{}</span>', name, LAYERS.get(name, name))


@register.simple_tag
def layer_of(dataset: Any) -> SafeString:
    """A target dataset's layer; history is shown as one of its own."""
    return layer("history" if dataset.history_of_id else dataset.schema.layer)


@register.filter
def duration(seconds: float | None) -> str:
    """``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 10 min``; empty for None."""
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
    """A count with thousands apart; empty for None."""
    if value is None or value == "":
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


@register.filter
def at_second(instant: Any) -> str:
    """An instant as people read it: ``2026-11-21 08:15:00``, UTC."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


@register.filter
def iso(instant: Any) -> str:
    return instant.isoformat() if instant else ""


@register.filter
def at(mapping: dict, key: str) -> Any:
    """A value of a mapping by a name that is a variable."""
    return mapping.get(key) if mapping else None


@register.filter
def sql(text: str) -> SafeString:
    return sql_html.highlight(text)


@register.simple_tag(takes_context=True)
def may_start_loads(context: Any) -> bool:
    """Return whether the user may start load runs, and change histories, in this environment."""
    return may(context["user"], Permission.START_LOAD, on=here)


@register.inclusion_tag("parts/refusal.html")
def refusal(error: dict | None, level: str = "error") -> dict:
    """A refusal as it was recorded: message, place, count, samples, what to do."""
    return {"error": error, "level": level}


@register.inclusion_tag("parts/refusal.html", takes_context=True)
def run_refusal(context: dict, row: DatasetRun) -> dict:
    """Render why a dataset was not loaded, without examples for a user who may not read its data."""
    return {"error": readable_error(context["user"], row.error, row.qualified_name), "level": "error"}


@register.simple_tag(takes_context=True)
def run_message(context: dict, row: DatasetRun) -> str:
    """Return the message of why a dataset was not loaded, as the user may read it."""
    error = readable_error(context["user"], row.error, row.qualified_name) or {}
    return error.get("message") or "No message."


@register.inclusion_tag("parts/pager.html", takes_context=True)
def pager(context: dict, page: Any, noun: str) -> dict:
    """Return the context of a pager: shown rows, their total, and links that keep the address's filters."""
    return {"page": page, "noun": noun, "request": context["request"]}


@register.filter
def span(length: Any) -> str:
    """A stretch of time by its two largest units: ``1 year 34 days``, ``3 h 20 min``."""
    seconds = int(length.total_seconds())
    found = []
    for size, one, many in (
        (31_536_000, "year", "years"),
        (86_400, "day", "days"),
        (3_600, "h", "h"),
        (60, "min", "min"),
        (1, "s", "s"),
    ):
        count, seconds = divmod(seconds, size)
        if count:
            found.append(f"{count} {one if count == 1 else many}")
    return " ".join(found[:2]) or "no time"
