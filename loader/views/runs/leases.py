"""Leases in force: their holders and times, and breaking one whose holder should not have it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from architecture.domain.reports.workflow import Refused
from architecture.models import Lease
from architecture.report_places import here
from architecture.selectors import dataset_names, leases_held
from architecture.services.states.environments import current_environment
from architecture.views.forms import ReasonForm
from elevata.core.errors import as_sentence
from elevata.jobs import states
from loader.domain.runs.refusals import Refusal
from loader.services.maintenance.lease_breaking import shut_out_holder
from metadata.domain.roles import Permission
from metadata.models import TargetDataset
from metadata.permissions import may, permitted
from metadata.views.paging import one_page

PER_PAGE = 50


@never_cache
@require_safe
def lease_list(request: HttpRequest) -> HttpResponse:
    """Show every lease that is held in this environment, the oldest first."""
    environment = current_environment()
    page = one_page(request, leases_held(environment=environment).order_by("taken_at", "pk"), PER_PAGE)
    context = {
        "environment": environment,
        "page": page,
        "rows": _shown(page.object_list),
        "may_break": may(request.user, Permission.EXECUTE_REPORTS, on=here),
        "silent_after": states.LOST_AFTER,
    }
    return render(request, "loader/lease_list.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.EXECUTE_REPORTS)
def lease_break(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for a reason, then break the lease and shut its holder out."""
    lease = get_object_or_404(Lease.objects.select_related("environment"), pk=pk, environment=current_environment())
    form = ReasonForm(request.POST or None)
    if request.method != "POST":
        return _ask(request, lease, form)
    if not form.is_valid():
        return _ask(request, lease, form, status=422)
    holder = f"{lease.holder_kind} {lease.holder_id}"
    fence = request.POST.get("fence", "")
    try:
        shut_out_holder(
            lease=lease,
            fence=int(fence) if fence.isdecimal() else -1,
            person=request.user,
            reason=form.cleaned_data["reason"],
        )
    except Refused as refused:
        form.add_error("reason", as_sentence(refused.message))
        return _ask(request, lease, form, status=422)
    except Refusal as refusal:
        form.add_error(None, as_sentence(refusal.one_line()))
        lease.refresh_from_db()
        return _ask(request, lease, form, status=409)
    messages.success(request, f"The lease is broken; {holder} is shut out. It stands in the change log.")
    return redirect("lease_list")


def _ask(request: HttpRequest, lease: Lease, form: ReasonForm, *, status: int = 200) -> HttpResponse:
    rows = _shown([lease])
    others = leases_held(environment=lease.environment).filter(
        holder_kind=lease.holder_kind, holder_id=lease.holder_id, holder_attempt=lease.holder_attempt
    )
    context = {"lease": lease, "row": rows[0], "form": form, "others": others.exclude(pk=lease.pk).count()}
    return render(request, "loader/lease_break.html", context, status=status)


def _shown(leases: Any) -> list[dict[str, Any]]:
    """Return leases with the names of their datasets, and whether their holders' heartbeats are overdue."""
    leases = list(leases)
    if not leases:
        return []
    keys = [str(lease.dataset_key) for lease in leases]
    names = dataset_names(keys, environment=leases[0].environment)
    described = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    quiet_since = timezone.now() - states.LOST_AFTER
    return [
        {
            "lease": lease,
            "name": names[str(lease.dataset_key)],
            "key": lease.dataset_key if lease.dataset_key in described else None,
            "quiet": lease.heartbeat_at is not None and lease.heartbeat_at < quiet_since,
        }
        for lease in leases
    ]
