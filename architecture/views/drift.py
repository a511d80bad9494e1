"""Drift: differences between the warehouse and its applied state, and their adoption as the baseline."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from architecture.domain.states.dataset_drift import DRIFTED, IN_SYNC, UNKNOWN, DatasetDrift
from architecture.forms import AdoptForm
from architecture.models import Environment
from architecture.services.drift import Drift, adopt_as_baseline, current_drift, known_drift
from architecture.services.environments import current_environment
from architecture.views.refusals import as_shown
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.errors import ProductError
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from elevata.web.requests import htmx_of
from elevata.web.views import REFUSED
from metadata.models import TargetDataset
from metadata.permissions import here

# Number of datasets up to which they are compared before the page is sent.
AT_ONCE = 200
# States in the order of their importance.
_ORDER = (DRIFTED, UNKNOWN, IN_SYNC)


class DriftRow(NamedTuple):
    """Drift of a dataset, and the dataset's key in the metadata if it is there."""

    drift: DatasetDrift
    key: UUID | None


class DriftPage(ListPage):
    """Every dataset: in sync, drifted (with the differences), or unknown."""

    template_name, file_name = "architecture/drift_page.html", "drift"
    columns: ClassVar = (
        Column("Dataset", {"dataset": "drift.dataset"}),
        Column("State", {"state": "drift.status"}),
        Column(
            "Differences",
            {
                "differences": lambda row: "; ".join(each.describe() for each in row.drift.differences),
                "reason": "drift.reason",
            },
        ),
    )

    @cached_property
    def environment(self) -> Environment:
        return current_environment()

    @cached_property
    def is_compared(self) -> bool:
        """Return False for a page that comes at once, before a long comparison."""
        request, environment = self.request, self.environment
        is_frame = request.method == "GET" and not htmx_of(request) and "now" not in request.GET
        return not is_frame or environment.applied_datasets.count() <= AT_ONCE or known_drift(environment) is not None

    @cached_property
    def drift(self) -> Drift:
        return current_drift(self.environment)

    @property
    def _state(self) -> str:
        return self.request.GET.get("state", "")

    def listed(self) -> Sequence[DatasetDrift]:
        return [dataset for kind in _ORDER if self._state in ("", kind) for dataset in self.drift.of(kind)]

    def detailed(self, rows: Sequence[DatasetDrift]) -> Sequence[DriftRow]:
        keys = TargetDataset.objects.filter(key__among=[dataset.key for dataset in rows]).values_list("key", flat=True)
        described = {str(key): key for key in keys}
        return [DriftRow(dataset, described.get(dataset.key)) for dataset in rows]

    def context(self) -> dict[str, Any]:
        own: dict[str, Any] = {"tab": "drift", "environment": self.environment, "compared": self.is_compared}
        if not self.is_compared:
            return own
        rows = self.detailed_page
        return {
            **super().context(),
            **own,
            "drift": self.drift,
            "rows": rows,
            "counts": [(kind, self.drift.count(kind)) for kind in _ORDER],
            "wanted": self._state,
            "form": AdoptForm(),
            "chosen": self.request.POST.getlist("dataset"),
            "adoptable": any(row.drift.status != IN_SYNC and row.key is not None for row in rows),
            "may_adopt": may(self.request.user, Permission.EXECUTE_REPORTS, on=here),
        }


class DriftAdopt(DriftPage):
    """Adopt the observed tables of the chosen datasets as the baseline."""

    http_method_names = ["post"]
    permissions = (Permission.EXECUTE_REPORTS,)

    def post(self, request: HttpRequest) -> HttpResponse:
        form = AdoptForm(request.POST)
        if not form.is_valid():
            return self.render(status=REFUSED, form=form)
        keys, reason = form.cleaned_data["dataset"], form.cleaned_data["reason"]
        try:
            adopt_as_baseline(environment=self.environment, dataset_keys=keys, user=request.user, reason=reason)
        except ProductError as error:
            return self.render(status=error.status, form=form, refused=as_shown(error, request.user))
        messages.success(request, "Baseline adopted. The next report starts from it.")
        return redirect("drift_page")
