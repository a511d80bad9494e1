"""Maintenance of histories on the pages: revert a run, prune old versions, check a history."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from architecture.report_places import here
from loader.domain.runs.maintenance import BRINGING
from loader.domain.runs.refusals import Refusal
from loader.models import DatasetRun, LoadRun
from loader.selectors import load_runs
from loader.services.maintenance.maintenance import archive_place, request_prune, request_revert, reversion
from loader.services.queries.reads import CHECK, request_read
from loader.services.runs.table_checks import historized
from loader.views.queries.data import readable
from loader.views.runs.forms import PruneForm, RevertForm
from loader.views.runs.runs import tell
from metadata.computed_fields import headed
from metadata.domain.roles import Permission
from metadata.models import TargetDataset
from metadata.permissions import permitted

REFUSED = 422


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.START_LOAD, on=here)
def run_revert(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the effect of reverting a run on each history, then request it."""
    run = get_object_or_404(load_runs(), run_id=run_id)
    rows = _revertible(run)
    names = [row["name"] for row in rows if not row["refusal"]]
    form = RevertForm(request.POST or None, datasets=names)
    if request.method == "POST" and form.is_valid():
        try:
            asked = request_revert(
                of_run=run.run_id,
                dataset=form.cleaned_data["dataset"],
                reason=form.cleaned_data["reason"],
                person=request.user,
            )
        except Refusal as refusal:
            form.add_error(None, refusal.one_line())
        else:
            tell(request, asked)
            return redirect("run_page", asked.run.run_id)
    status = REFUSED if form.is_bound else 200
    return render(request, "loader/run_revert.html", {"run": run, "rows": rows, "form": form}, status=status)


def _revertible(run: LoadRun) -> list[dict[str, Any]]:
    """Return the histories that the run wrote, with its counts there and the refusal of a revert, if there is one."""
    if run.kind not in BRINGING:
        return []
    rows = []
    for row in DatasetRun.objects.filter(run=run, sequence__isnull=False).order_by("ordinal", "pk"):
        try:
            refusal = reversion(run.run_id, row.qualified_name).refusal
        except Refusal as refused:
            if refused.code == "NO_HISTORY":
                continue
            refusal = refused
        rows.append({"name": row.qualified_name, "counts": row.counts, "refusal": refusal})
    return rows


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.START_LOAD, on=here)
def dataset_prune(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show what pruning removes, then request it."""
    dataset, described = _history(key)
    form = PruneForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        try:
            asked = request_prune(
                dataset=str(described),
                reason=chosen["reason"],
                ended_before=chosen["ended_before"].strip() or None,
                older_than_days=chosen["older_than_days"],
                archive=archive_place(str(described)) if chosen["archive"] else None,
                person=request.user,
            )
        except Refusal as refusal:
            form.add_refusal(refusal)
        else:
            tell(request, asked)
            return redirect("run_page", asked.run.run_id)
    status = REFUSED if form.is_bound else 200
    context = {"dataset": dataset, "described": described, "form": form, "view": "prune"}
    return render(request, "loader/history_prune.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.READ_DATA)
def dataset_check(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show what a check covers, then request it; its findings come on the page of the read."""
    dataset, described = _history(key)
    readable(request, TargetDataset.objects.select_related("schema"), described.key)
    if request.method == "POST":
        try:
            (checked,) = historized([str(described)])
            asked = request_read(kind=CHECK, dataset=checked, user=request.user)
        except Refusal as refusal:
            messages.error(request, refusal.one_line())
        else:
            return redirect("read_part", asked.read.pk)
    return render(request, "loader/history_check.html", {"dataset": dataset, "view": "check"})


def _history(key: UUID) -> tuple[TargetDataset, TargetDataset]:
    """Return the dataset of a page, and the one whose history it is about."""
    dataset = get_object_or_404(headed(), key=key)
    return dataset, dataset.history_of or dataset
