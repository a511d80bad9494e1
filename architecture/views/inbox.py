"""Inbox: requests that wait for the signed-in user."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from architecture.permissions import may_build
from architecture.selectors.inbox import Ask, checked, count, policies_waiting, sections, waiting_for
from elevata.core.canonical_json import sha256_hex


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """Show the waiting requests that are known without rebuilding reports."""
    context = _context(request.user, waiting_for(request.user)) | {"may_build": may_build(request.user)}
    return render(request, "architecture/inbox.html", context)


@require_safe
def inbox_rows(request: HttpRequest) -> HttpResponse:
    """Show the waiting requests with reports checked; nothing (204) while the page is up to date."""
    context = _context(request.user, checked(request.user))
    if request.GET.get("seen") == context["seen"]:
        return HttpResponse(status=204)
    context |= {"may_build": may_build(request.user), "oob": True}
    return render(request, "architecture/inbox_rows.html", context)


def _context(user: Any, asks: tuple[Ask, ...]) -> dict[str, object]:
    policies = policies_waiting(user)
    seen = [[ask.ask, ask.pk, ask.is_checked, ask.facts.missing, ask.facts.stale] for ask in asks]
    proposals = [policy.proposal.pk for policy in policies]
    return {
        "sections": sections(asks),
        "policies": policies,
        "inbox_count": count(asks) + sum(not policy.own for policy in policies),
        "unchecked": not all(ask.is_checked for ask in asks),
        "seen": sha256_hex([seen, proposals])[:12],
    }
