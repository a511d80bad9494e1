"""Trials of models: a page with the SELECT, and fragments with the answer, which the model's editor shows, too."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from architecture.domain.comparison import compare
from architecture.views.report_parts import ReportPart
from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import permitted
from elevata.core.errors import MetadataError
from elevata.web.requests import htmx_of
from loader.contract.check_outcomes import OUTCOMES, PASSED, STOPPED, WARNED, Result
from loader.contract.refusals import Refusal
from loader.domain.queries.differences import part_shown
from loader.forms.model_trials import LIMITS, TrialForm
from loader.models import ReadRequest
from loader.selectors.reads import trials_of
from loader.services.reads.read_requests import request_trial
from loader.services.reads.trials import must_still_see_trial
from loader.views.datasets.differences import cells, differing_rows
from loader.views.queries.statements import REFUSED, answered, headings, seen, waiting
from metadata.models import TargetDataset

# Models that the page of a report offers to compare.
_OFFERED = 50
# What a load would do about the result of a check.
_OUTCOMES = OUTCOMES | {WARNED: "Would warn", STOPPED: "Would stop the load"}


@require_safe
@permitted(Permission.READ_DATA)
def trial_page(request: HttpRequest) -> HttpResponse:
    """Show the page that tries a SELECT, empty or with that of a model."""
    dataset = _model(request.GET.get("dataset", ""))
    initial = {"limit": LIMITS[0][0], "dataset": dataset and dataset.key, "select": dataset.select if dataset else ""}
    return render(request, "loader/trials/page.html", {"trial": TrialForm(initial=initial), "dataset": dataset})


def _model(key: str) -> TargetDataset | None:
    try:
        models = TargetDataset.objects.exclude(select="").select_related("schema")
        return models.filter(key=UUID(str(key))).first()
    except ValueError:
        return None


@require_POST
@permitted(Permission.READ_DATA)
def trial_run(request: HttpRequest) -> HttpResponse:
    """Request a trial; return the fragment that polls for its answer, or redirect to its page."""
    form = TrialForm(request.POST)
    if not form.is_valid():
        message = "; ".join(str(message) for errors in form.errors.values() for message in errors)
        return _part(request, form, REFUSED, {"error": {"message": message}})
    dataset = _model(str(form.cleaned_data["dataset"] or ""))
    try:
        requested = request_trial(**form.trial(), dataset=dataset, user=request.user)
    except (Refusal, MetadataError) as refusal:
        return _part(request, form, REFUSED, {"error": refusal.as_json()})
    if not htmx_of(request):
        return redirect("trial_answer", requested.read.pk)
    return _part(request, form, *_state_template(requested.read, notice=requested.reason))


@require_safe
@permitted(Permission.READ_DATA)
def trial_answer(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the answer of a trial, or its state, to the user who requested it."""
    read = get_object_or_404(trials_of(request.user), pk=pk)
    if not read.is_finished and request.GET.get("seen") == seen(read):
        return HttpResponse(status=204)
    arguments = read.arguments
    sample = next((f"{name}:{value}" for name, value in arguments["sample"].items()), "")
    form = TrialForm(
        initial=arguments
        | {"select": arguments["text"], "dataset": read.dataset and read.dataset.key, "sample": sample}
    )
    try:
        if read.answer:
            must_still_see_trial(request.user, read)
    except Refusal as refusal:
        return _part(request, form, REFUSED, {"error": refusal.as_json()})
    return _part(request, form, *_state_template(read))


def _part(request: HttpRequest, form: TrialForm, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render the fragment for htmx, or else the page with it."""
    if htmx_of(request):
        return render(request, template, context)
    dataset = _model(str(form["dataset"].value() or ""))
    return render(request, "loader/trials/page.html", {"trial": form, "dataset": dataset, "part": template, **context})


def _state_template(read: ReadRequest, notice: str = "") -> tuple[str, dict[str, Any]]:
    """Return the template for the state of a trial, with its context."""
    if not read.is_finished:
        return waiting(read, "trial", poll="trial_answer", notice=notice)
    if read.status == ReadRequest.Status.FAILED:
        return REFUSED, {"read": read, "error": read.error}
    difference = (read.answer or {}).get("difference")
    context = {
        "answer": read.answer,
        "difference": difference,
        "differing": differing_rows(difference) if difference else [],
        "part_shown": part_shown(difference) if difference else "",
        "left_out_checks": (read.answer or {}).get("left_out_checks", {}),
    }
    context |= _checks(read.answer or {})
    return "loader/trials/answer.html", answered(read) | context


def _checks(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the results of the declared key and of quality checks, those that failed first."""
    checked = [(Result.from_json(item["result"]), item) for item in answer.get("checked", ())]
    checks = [
        {
            "result": result,
            "outcome": _OUTCOMES[result.outcome],
            "headings": headings(item, answer["masked"]),
            "rows": [cells(row) for row in item["rows"]],
            "truncated": item["truncated"],
        }
        for result, item in sorted(checked, key=lambda pair: pair[0].outcome == PASSED)
    ]
    return {"checks": checks, "passed": sum(result.outcome == PASSED for result, _ in checked)}


class ReportModels(ReportPart):
    """Models that a report changes, each with a button that compares its new rows with its table."""

    part, permissions = "models", (Permission.READ_DATA,)

    def context(self) -> dict[str, Any]:
        selects = {
            pair.after.name: pair.after.select
            for pair in compare(self.row.content)
            if pair.before is not None
            and pair.after is not None
            and pair.after.active
            and pair.after.select
            and pair.after.materialization == TargetDataset.Materialization.TABLE
        }
        rows = TargetDataset.objects.exclude(select="").select_related("schema").order_by("schema__name", "name")
        schemas = {name.partition(".")[0] for name in selects}
        models = [
            {"dataset": row, "select": selects[str(row)]}
            for row in rows.filter(schema__name__in=schemas)
            if str(row) in selects
        ]
        return super().context() | {"models": models[:_OFFERED], "more": max(0, len(models) - _OFFERED)}
