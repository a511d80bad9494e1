"""The inbox: what waits for the person who is signed in."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.inbox import Ask, checked, count, policies_waiting, sections, waiting_for
from architecture.report_details import may_build
from elevata.core.canonical_json import sha256_hex


@never_cache
@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """Show the waiting requests that are known without rebuilding reports."""
    context = _context(request.user, waiting_for(request.user)) | {"may_build": may_build(request.user)}
    return render(request, "architecture/inbox.html", context)


@never_cache
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
    seen = [[one.ask, one.pk, one.is_checked, one.facts.missing, one.facts.stale] for one in asks]
    proposals = [one.proposal.pk for one in policies]
    return {
        "sections": sections(asks),
        "policies": policies,
        "inbox_count": count(asks) + sum(not one.own for one in policies),
        "unchecked": not all(one.is_checked for one in asks),
        "seen": sha256_hex([seen, proposals])[:12],
    }
