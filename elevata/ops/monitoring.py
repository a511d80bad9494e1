"""Readiness and metrics endpoints."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from elevata.accounts.authentication import PersonalTokenAuthentication
from elevata.accounts.lockouts import address_of
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.ops import metrics
from elevata.ops.health_checks import CHECKS, as_json, check_components
from elevata.web import problems

READ_METADATA = Permission.READ_METADATA


@never_cache
@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if database, broker, worker and warehouse answer, else 503.

    ``?only=database&only=broker`` checks only these; an unknown name is refused with 400.
    """
    only = request.GET.getlist("only")
    unknown = sorted(set(only) - set(CHECKS))
    if unknown:
        return JsonResponse({"status": "unknown", "known": sorted(CHECKS)}, status=400)
    results = check_components(only or None)
    body = as_json(results)
    response = JsonResponse(body, status=200 if body["status"] == "ready" else 503)
    if response.status_code == 503:
        response.headers["Retry-After"] = "5"
    return response


@never_cache
@login_not_required
@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """Return all metrics for Prometheus to users with a role, their tokens, and listed addresses."""
    if not _may_read_metrics(request):
        message = "Metrics are for users with a role, their tokens, and addresses in ELEVATA_METRICS_ALLOW."
        return problems.answer(request, status=403, title="Not allowed", detail=message, code="permission_denied")
    return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def _may_read_metrics(request: HttpRequest) -> bool:
    # The address is checked first, because that needs no database.
    return _is_allowed(address_of(request)) or _has_token(request) or may_somewhere(request.user, READ_METADATA)


def _is_allowed(address: str | None) -> bool:
    networks = [ip_network(text, strict=False) for text in settings.METRICS_ALLOW]
    return address is not None and any(ip_address(address) in network for network in networks)


def _has_token(request: HttpRequest) -> bool:
    """Return True if the request has a personal token, of any scope, of a user with a role."""
    try:
        user_and_token = PersonalTokenAuthentication().authenticate(Request(request))
        return user_and_token is not None and may_somewhere(user_and_token[0], READ_METADATA)
    except APIException:
        return False
