"""Template tags of load runs: refusals as the user may read them, permission to start loads."""

from typing import Any

from django import template

from architecture.permissions import here
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from loader.models import DatasetRun
from loader.services.reads.read_permissions import readable_error

register = template.Library()


@register.simple_tag(takes_context=True)
def may_start_loads(context: Any) -> bool:
    """Return whether the user may start load runs, and change histories, in this environment."""
    return may(context["user"], Permission.START_LOAD, on=here)


@register.inclusion_tag("parts/refusal.html", takes_context=True)
def run_refusal(context: dict, row: DatasetRun) -> dict:
    """Render why a dataset was not loaded, without examples for a user who may not read its data."""
    return {"error": readable_error(context["user"], row.error, row.qualified_name), "level": "error"}


@register.simple_tag(takes_context=True)
def run_message(context: dict, row: DatasetRun) -> str:
    """Return the message of why a dataset was not loaded, as the user may read it."""
    error = readable_error(context["user"], row.error, row.qualified_name) or {}
    return error.get("message") or "No message."
