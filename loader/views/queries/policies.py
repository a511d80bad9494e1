"""History policy of a dataset: chosen in a form, and demonstrated on five rows."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from loader.domain.historization.policy_outcome import outcome
from loader.domain.historization.policy_sample import make_sample
from loader.policy_change import policy_change
from metadata.domain.history_columns import time_type
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.roles import Permission
from metadata.forms.history_policy import PolicyForm
from metadata.history_words import history_facts
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.permissions import permitted
from metadata.row_places import may_change
from metadata.services.targets import update_target_dataset
from metadata.views.conflict import conflict, goes_on
from metadata.views.lookup import dataset_here

REFUSED = 422
SHOW = "show"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA, methods=("POST",))
def dataset_policy(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the policy; a user who may change metadata chooses another, sees its effect, and saves it."""
    dataset = dataset_here(key)
    described, without = _described(dataset), _why_none(dataset)
    may_edit = may_change(request.user, dataset)
    if dataset is not described or without:
        if request.method == "POST":
            return redirect("dataset_policy", described.key)
        return _page(request, dataset, described, without=without)
    if request.method != "POST":
        return _page(request, dataset, described, PolicyForm.of(dataset, dataset=dataset), may_edit=may_edit)
    form = PolicyForm(request.POST, dataset=dataset)
    if SHOW in request.POST or goes_on(request):
        form.is_valid()
        return _page(request, dataset, described, form, may_edit=True, shown=True)
    return _save(request, dataset, form)


def _save(request: HttpRequest, dataset: TargetDataset, form: PolicyForm) -> HttpResponse:
    try:
        saved = form.attempt(
            lambda: update_target_dataset(dataset=dataset, expected_version=form.over, **form.changes())
        )
    except StaleVersion:
        row = dataset_here(dataset.key)
        now = PolicyForm.of(row, dataset=row)
        return conflict(request, form=form, now=now, row=row, back=reverse("dataset_policy", args=[row.key]))
    if saved is None:
        return _page(request, dataset, dataset, form, may_edit=True, status=REFUSED)
    done = "The history policy is saved. Tables follow when a change report is carried out."
    messages.success(request, done if form.changes() else "Nothing was changed.")
    return redirect("dataset_policy", dataset.key)


def _described(dataset: TargetDataset) -> TargetDataset:
    """Return the dataset that a policy is described for: of a history, its base."""
    return dataset_here(dataset.history_of.key) if dataset.history_of_id else dataset


def _why_none(dataset: TargetDataset) -> str:
    """Return why no policy can be chosen for this dataset; empty if one can."""
    if dataset.history_of_id:
        return ""
    if dataset.schema.layer != TargetSchema.Layer.RAWCORE:
        return f"Layer {dataset.schema.layer} keeps no history; rawcore does."
    if dataset.materialization != TargetDataset.Materialization.TABLE:
        return "A view holds no rows of its own, so no history of them is kept."
    return "" if dataset.active else "The dataset is retired: nothing is loaded into it, and no history grows."


def _page(
    request: HttpRequest,
    dataset: TargetDataset,
    described: TargetDataset,
    form: PolicyForm | None = None,
    *,
    may_edit: bool = False,
    shown: bool = False,
    without: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the tab. ``shown``: the user asked for the effect of the choices, and saved nothing."""
    context: dict[str, Any] = {"dataset": dataset, "described": described, "may_edit": may_edit, "without": without}
    if not without:
        form = form or PolicyForm.of(described, dataset=described)
        stored = HistoryPolicy.from_dict(described.history_policy)
        types = {name: str(type_) for name, type_ in form.types.items()}
        context |= {
            "form": form,
            "groups": form.groups(),
            "facts": history_facts(described.name, stored, time_type(stored, types)),
            "shown": shown,
            "unused": form.not_applying(),
            "touched": form.is_bound and bool(form.changed_data),
            **_shown_by(described, form, stored),
        }
    return render(request, "loader/dataset_policy.html", context, status=status)


def _shown_by(dataset: TargetDataset, form: PolicyForm, stored: HistoryPolicy) -> dict[str, Any]:
    """Return the effect of the chosen policy on the five rows and on the existing history; else why there is none."""
    if form.is_bound and form.policy is None:
        return {"problems": [(form[name], errors) for name, errors in form.errors.items() if name in form.fields]}
    policy = form.policy or stored
    if not form.business_key:
        return {"nothing": "It has no business key yet, so there is nothing that versions could belong to."}
    try:
        form.check(policy)
    except MetadataError as problem:
        return {"nothing": as_sentence(problem.message)}
    kept = {c.name: c.type for c in form.columns if c.role != TargetColumn.Role.TECHNICAL}
    dated = {name: form.types[name] for name in (policy.time_column, policy.op) if name in form.types}
    historize = form.cleaned_data["historize"] if form.is_bound else dataset.historize
    return {
        "outcome": outcome(make_sample(policy, form.business_key, kept | dated)),
        "change": policy_change(dataset, policy, historize=historize),
        "historize": historize,
        "column_count": len(kept),
    }
