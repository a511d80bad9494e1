"""The addresses that machines ask how this installation is: readiness and metrics (health is in ``views``)."""

from ipaddress import ip_address, ip_network

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from elevata.accounts.authentication import PersonalTokenAuthentication
from elevata.accounts.throttling import address_of
from elevata.ops import health, metrics
from elevata.web import error_pages
from metadata.domain.roles import Permission
from metadata.permissions import may_somewhere

READ_METADATA = Permission.READ_METADATA


@never_cache
@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer whether database, broker, worker and warehouse answer: 503 if one does not.

    ``?only=database&only=broker`` asks for these alone; an unknown name is refused with 400.
    """
    only = request.GET.getlist("only")
    unknown = sorted(set(only) - set(health.PROBES))
    if unknown:
        return JsonResponse({"status": "unknown", "known": sorted(health.PROBES)}, status=400)
    found = health.findings(only or None)
    said = health.as_json(found)
    answer = JsonResponse(said, status=200 if said["status"] == "ready" else 503)
    if answer.status_code == 503:
        answer.headers["Retry-After"] = "5"
    return answer


@never_cache
@login_not_required
@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """Everything counted, as Prometheus reads it: for users with a role, their tokens, and listed addresses."""
    if not _may_see(request):
        said = "Metrics are for users with a role, their tokens, and addresses in ELEVATA_METRICS_ALLOW."
        return error_pages.answer(request, status=403, title="Not allowed", detail=said, code="permission_denied")
    return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def _may_see(request: HttpRequest) -> bool:
    # The address first: a collector that is let in by it need not wait for the database.
    return _is_allowed(address_of(request)) or _by_token(request) or may_somewhere(request.user, READ_METADATA)


def _is_allowed(address: str | None) -> bool:
    networks = [ip_network(one, strict=False) for one in settings.METRICS_ALLOW]
    return address is not None and any(ip_address(address) in network for network in networks)


def _by_token(request: HttpRequest) -> bool:
    """Return whether a personal token of a user with a role came along, of any scope."""
    try:
        found = PersonalTokenAuthentication().authenticate(Request(request))
        return found is not None and may_somewhere(found[0], READ_METADATA)
    except APIException:
        return False
