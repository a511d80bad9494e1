"""Template tag of the button that marks a favourite."""

from typing import Any
from uuid import UUID

from django import template

from elevata.lists.selectors import is_favourite

register = template.Library()


@register.inclusion_tag("lists/favourite.html", takes_context=True)
def favourite(context: dict, kind: str, key: UUID) -> dict[str, Any]:
    """Return the context of the button of a subject."""
    request = context["request"]
    is_on = is_favourite(request.user, kind, key)
    return {
        "kind": kind,
        "key": key,
        "is_on": is_on,
        "back": request.get_full_path(),
        "csrf_token": context["csrf_token"],
    }
