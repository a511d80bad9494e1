"""Drift: differences between the warehouse and its applied state, and their adoption as the baseline."""

from functools import cached_property
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from architecture.domain.states.dataset_drift import DRIFTED, IN_SYNC, UNKNOWN
from architecture.forms import AdoptForm
from architecture.models import Environment
from architecture.services.drift import adopt_as_baseline, current_drift, known_drift
from architecture.services.environments import current_environment
from architecture.views.refusals import as_shown
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.errors import ProductError
from elevata.web.paging import one_page
from elevata.web.requests import htmx_of
from elevata.web.views import Page
from metadata.models import TargetDataset
from metadata.permissions import here

# Number of datasets up to which they are compared before the page is sent.
AT_ONCE = 200
# States in the order of their importance.
_ORDER = (DRIFTED, UNKNOWN, IN_SYNC)


class DriftPage(Page):
    """Every dataset: in sync, drifted (with the differences), or unknown."""

    template_name = "architecture/drift_page.html"

    @cached_property
    def environment(self) -> Environment:
        return current_environment()

    def get(self, request: HttpRequest) -> HttpResponse:
        environment = self.environment
        is_frame = request.method == "GET" and not htmx_of(request) and "now" not in request.GET
        if is_frame and environment.applied_datasets.count() > AT_ONCE and known_drift(environment) is None:
            # The page comes at once; the comparison follows.
            return self.render(tab="drift", environment=environment)
        return self.show(AdoptForm())

    def show(self, form: AdoptForm, *, refused: ProductError | None = None, status: int = 200) -> HttpResponse:
        environment = self.environment
        drift = current_drift(environment)
        state = self.request.GET.get("state", "")
        datasets = [dataset for kind in _ORDER if state in ("", kind) for dataset in drift.of(kind)]
        page = one_page(self.request, datasets)
        keys = TargetDataset.objects.filter(key__in=[dataset.key for dataset in page]).values_list("key", flat=True)
        described = {str(key): key for key in keys}
        rows = [(dataset, described.get(dataset.key)) for dataset in page]
        context: dict[str, Any] = {
            "compared": True,
            "page": page,
            "tab": "drift",
            "environment": environment,
            "drift": drift,
            "rows": rows,
            "counts": [(kind, drift.count(kind)) for kind in _ORDER],
            "wanted": state,
            "form": form,
            "chosen": self.request.POST.getlist("dataset"),
            "adoptable": any(dataset.status != IN_SYNC and key is not None for dataset, key in rows),
            "may_adopt": may(self.request.user, Permission.EXECUTE_REPORTS, on=here),
            "refused": as_shown(refused, self.request.user) if refused is not None else None,
        }
        return self.render(status=status, **context)


class DriftAdopt(DriftPage):
    """Adopt the observed tables of the chosen datasets as the baseline."""

    http_method_names = ["post"]
    permissions = (Permission.EXECUTE_REPORTS,)

    def post(self, request: HttpRequest) -> HttpResponse:
        form = AdoptForm(request.POST)
        if not form.is_valid():
            return self.show(form, status=422)
        keys, reason = form.cleaned_data["dataset"], form.cleaned_data["reason"]
        try:
            adopt_as_baseline(environment=self.environment, dataset_keys=keys, user=request.user, reason=reason)
        except ProductError as error:
            return self.show(form, refused=error, status=error.status)
        messages.success(request, "Baseline adopted. The next report starts from it.")
        return redirect("drift_page")
