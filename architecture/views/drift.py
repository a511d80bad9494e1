"""Drift: where the warehouse is not as it was left, and taking what is there as the baseline."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from architecture.domain.reports.workflow import Refused
from architecture.domain.states.drift import DRIFTED, IN_SYNC, UNKNOWN
from architecture.drift_pages import current_drift, known_drift
from architecture.models import Environment
from architecture.report_places import here
from architecture.services.states.drift import adopt_as_baseline
from architecture.services.states.environments import current_environment
from architecture.views.decisions import as_shown, permitted, status_of
from architecture.views.forms import AdoptForm
from elevata.core.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.models import TargetDataset
from metadata.permissions import may
from metadata.views.paging import one_page

# So many datasets are compared while the page is made; for more, what it tells of follows.
AT_ONCE = 200
# What a person looks at first.
_ORDER = (DRIFTED, UNKNOWN, IN_SYNC)


@never_cache
@require_safe
def drift_page(request: HttpRequest) -> HttpResponse:
    """Every dataset: in sync, drifted (with the differences), or unknown."""
    return _page(request, AdoptForm())


@require_POST
@permitted(Permission.EXECUTE_REPORTS)
def drift_adopt(request: HttpRequest) -> HttpResponse:
    """Take the tables of the chosen datasets as they were seen for applied."""
    form = AdoptForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        adopt_as_baseline(
            environment=current_environment(),
            dataset_keys=form.cleaned_data["dataset"],
            person=request.user,
            reason=form.cleaned_data["reason"],
        )
    except (Refused, MetadataError) as refused:
        return _page(request, form, refused=refused, status=status_of(refused))
    messages.success(request, "What is there is the baseline now; the next report starts from it.")
    return redirect("drift_page")


def _follows(request: HttpRequest, environment: Environment) -> bool:
    """Return whether the page is sent before its content: where many tables are still to be compared."""
    if request.method != "GET" or request.htmx or "now" in request.GET:
        return False
    return environment.applied_datasets.count() > AT_ONCE and known_drift(environment) is None


def _page(
    request: HttpRequest,
    form: AdoptForm,
    *,
    refused: Refused | MetadataError | None = None,
    status: int = 200,
) -> HttpResponse:
    environment = current_environment()
    if _follows(request, environment):
        return render(request, "architecture/drift_page.html", {"tab": "drift", "environment": environment})
    found = current_drift(environment)
    wanted = request.GET.get("state", "")
    page = one_page(request, [one for state in _ORDER if wanted in ("", state) for one in found.of(state)])
    keys = TargetDataset.objects.filter(key__in=[one.key for one in page]).values_list("key", flat=True)
    described = {str(key): key for key in keys}
    rows = [(one, described.get(one.key)) for one in page]
    context = {
        "compared": True,
        "page": page,
        "tab": "drift",
        "environment": environment,
        "drift": found,
        "rows": rows,
        "counts": [(state, found.count(state)) for state in _ORDER],
        "wanted": wanted,
        "form": form,
        "chosen": request.POST.getlist("dataset"),
        "adoptable": any(one.status != IN_SYNC and key is not None for one, key in rows),
        "may_adopt": may(request.user, Permission.EXECUTE_REPORTS, on=here),
        "refused": as_shown(refused, request.user) if refused is not None else None,
    }
    return render(request, "architecture/drift_page.html", context, status=status)
