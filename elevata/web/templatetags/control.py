"""Template tags of architecture control: decisions, risks, sentences."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from elevata.core.errors import as_sentence

register = template.Library()

_DECISIONS = {
    "allowed": "allowed",
    "needs_approval": "needs approval",
    "blocked": "blocked",
    "metadata_only": "metadata only",
}
_RISKS = {"safe": "low risk", "review": "medium risk", "destructive": "high risk"}


@register.simple_tag
def decision(value: str) -> SafeString:
    """Render the decision of the change policy on an operation."""
    return format_html('<span class="badge-state decision-{}">{}</span>', value, _DECISIONS.get(value, value))


@register.simple_tag
def risk(value: str) -> SafeString:
    """Render the highest risk of a report, in words and shades that no state has."""
    return format_html('<span class="badge-state risk-{}">{}</span>', value, _RISKS.get(value, value))


@register.filter
def sentence(text: str, name: str = "") -> str:
    """Return a message as a sentence, with a capital unless it starts with ``name``."""
    return as_sentence(text, name)


@register.filter
def words(name: str) -> str:
    """Return a name with spaces: ``source dataset`` for ``source_dataset``."""
    return name.replace("_", " ")
