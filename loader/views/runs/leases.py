"""Pages of leases: who holds them, and breaking one."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect

from architecture.forms import ReasonForm
from architecture.models import Environment, Lease
from architecture.selectors.dataset_states import dataset_names
from architecture.selectors.environments import leases_held
from architecture.services.environments import current_environment
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.database import is_silent
from elevata.jobs import states
from elevata.web.list_pages import ListPage
from elevata.web.views import ActionPage
from loader.contract.refusals import Refusal
from loader.services.loads.broken_leases import shut_out_holder
from metadata.models import TargetDataset
from metadata.permissions import here


class LeaseList(ListPage):
    """List of the leases in force in this environment, oldest first."""

    template_name = "loader/runs/lease_list.html"

    @cached_property
    def environment(self) -> Environment:
        return current_environment()

    def listed(self) -> QuerySet[Lease]:
        return leases_held(environment=self.environment).order_by("taken_at", "pk")

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "environment": self.environment,
            "rows": _lease_rows(list(self.rows_page.object_list)),
            "may_break": may(self.request.user, Permission.EXECUTE_REPORTS, on=here),
            "silent_after": states.LOST_AFTER,
        }


class LeaseBreak(ActionPage):
    """Page that asks for a reason, breaks the lease and marks its holder as lost."""

    permissions = (Permission.EXECUTE_REPORTS,)
    name, by, form_class, template_name = "lease", "pk", ReasonForm, "loader/runs/lease_break.html"

    def rows(self) -> QuerySet[Lease]:
        return Lease.objects.select_related("environment").filter(environment=current_environment())

    def context(self) -> dict[str, Any]:
        lease = self.row
        same = {name: getattr(lease, name) for name in ("holder_kind", "holder_id", "holder_attempt")}
        others = leases_held(environment=lease.environment).filter(**same).exclude(pk=lease.pk)
        return super().context() | {"row": _lease_rows([lease])[0], "others": others.count()}

    def act(self, form: ReasonForm) -> HttpResponse:
        lease, user, fence = self.row, self.request.user, self.request.POST.get("fence", "")
        number = int(fence) if fence.isdecimal() else -1
        try:
            shut_out_holder(lease=lease, fence=number, user=user, reason=form.cleaned_data["reason"])
        except Refusal:
            self.row, self.refused = self.find(), 409
            raise
        holder = f"{lease.holder_kind} {lease.holder_id}"
        messages.success(self.request, f"Lease broken: {holder} lost it. Recorded in the change log.")
        return redirect("lease_list")


def _lease_rows(leases: Sequence[Lease]) -> list[dict[str, Any]]:
    """Return leases with the names of their datasets; ``quiet`` is True if the holder's heartbeat is overdue."""
    leases = list(leases)
    if not leases:
        return []
    keys = [str(lease.dataset_key) for lease in leases]
    names = dataset_names(keys, environment=leases[0].environment)
    described = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    return [
        {
            "lease": lease,
            "name": names[str(lease.dataset_key)],
            "key": lease.dataset_key if lease.dataset_key in described else None,
            "quiet": lease.heartbeat_at is not None and is_silent(lease, states.LOST_AFTER),
        }
        for lease in leases
    ]
