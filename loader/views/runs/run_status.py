"""Part of a load run's page that changes, with its graph.

A run may have thousands of datasets, and every open page polls each second. Each request therefore reads only the
fields that can change, and the part is rendered only if they differ from the page's.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.models import Execution
from architecture.permissions import who_answers
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.database import shared_now
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.web.paging import one_page
from loader.contract.run_states import BRINGING
from loader.domain.historization.load_guards import EMPTY_SNAPSHOT, TOO_MANY_DELETES
from loader.domain.sources.marks import BACKWARDS
from loader.models import DatasetRun, LoadRun
from loader.selectors.quality_results import results_of_run
from loader.selectors.readable_windows import with_readable_windows
from loader.selectors.run_picture import Part, RunPicture, parts_of
from loader.selectors.runs import executions_of, run_events, usual_seconds
from loader.services.maintenance.approvals import is_unapproved, missing_approvals, requesters
from metadata.domain.scope import Scope
from metadata.permissions import here

LINES = 300
PER_PAGE = 100
_LIGHT = (
    *("dataset_key", "qualified_name", "kind", "status", "phase", "depends_on"),
    *("counts", "seconds", "started_at", "finished_at"),
)


# Decisions by the code of the refusal: field of the form, explanation, and label of the button.
_DECISIONS = {
    TOO_MANY_DELETES: {
        "name": "allow_deletes",
        "explanation": "The snapshot lacks many open keys. If the rows were deleted in the source, load again with "
        "deletes allowed.",
        "button": "Allow deletes and reload",
    },
    EMPTY_SNAPSHOT: {
        "name": "allow_empty",
        "explanation": "The snapshot is empty. If the source is empty, load again with empty deliveries allowed.",
        "button": "Allow empty and reload",
    },
    BACKWARDS: {
        "name": "full",
        "explanation": "The highest watermark value of a source is below the mark of the last load. If the source was "
        "restored, read it whole.",
        "button": "Read whole and reload",
    },
}


@dataclass(frozen=True)
class RunState:
    """State of a run: everything that changes while it is active, read once."""

    run: LoadRun
    parts: tuple[Part, ...]
    executions: list[Execution]
    newest_line: int
    workers: int
    wait: states.Wait | None

    @classmethod
    def of(cls, run: LoadRun) -> "RunState":
        rows = DatasetRun.objects.filter(run=run).order_by("ordinal", "pk").values(*_LIGHT)
        newest = run_events(run=run).order_by("-pk").values_list("pk", flat=True).first()
        workers = 0 if run.is_finished else len(live_workers())
        wait = states.wait_of(
            status=run.status,
            queued_at=run.queued_at,
            heartbeat_at=run.heartbeat_at,
            phase=run.phase,
            workers=workers,
            now=shared_now(),
        )
        return cls(run, parts_of(rows), executions_of(run), newest or 0, workers, wait)

    @cached_property
    def seen(self) -> str:
        """Return a digest of the state, for the next request's comparison."""
        run = self.run
        values = [
            (run.status, run.phase, run.attempt, run.started_at, run.finished_at, self.newest_line, self.wait),
            *((part.key, part.status, part.phase, part.seconds) for part in self.parts),
            *(
                (execution.pk, execution.status, step.pk, step.status)
                for execution in self.executions
                for step in execution.operations.all()
            ),
        ]
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]

    @cached_property
    def picture(self) -> RunPicture:
        return RunPicture(self.parts, {} if self.run.is_finished else usual_seconds(self.run))


def live_part(request: HttpRequest, state: RunState) -> tuple[str, str]:
    """Return the part as HTML, and the query string that selects the same datasets."""
    run, picture = state.run, state.picture
    chosen = _Selection(request, state.parts)
    urls = chosen.urls()
    lines = list(run_events(run=run).order_by("-pk")[: LINES + 1])
    is_here = run.environment.name == settings.ENVIRONMENT
    is_gone = state.wait is not None and state.wait.code == states.GONE
    context = {
        "run": run,
        "scope": Scope.from_json(run.scope),
        "user": request.user,
        "chosen": chosen,
        "layers": _layers(state, chosen.page, request.user),
        "picture": picture,
        "graph": picture.graph(urls) if len(state.parts) > 1 else None,
        "urls": urls,
        "executions": state.executions,
        "asked": request_details(run),
        "tables": sorted(run.details.get("tables", {}).items()),
        "copies": run.details.get("copies", []),
        "lines": lines[:LINES][::-1],
        "lines_left_out": len(lines) > LINES,
        "wait": state.wait,
        "workers": state.workers,
        "decisions": _decisions(run) if is_here else [],
        "may_start": may(request.user, Permission.START_LOAD, on=here),
        "approval": _approval(request.user, run),
        # A request to repeat a run marks it as lost first, if its last heartbeat is too old.
        "restartable": is_here and (run.status in LoadRun.RESTARTABLE or is_gone),
        "revertible": is_here and run.is_finished and run.kind in BRINGING and _loaded_tables(state),
        "cancelable": is_here and run.status in (LoadRun.Status.QUEUED, LoadRun.Status.RUNNING),
    }
    return render_to_string("loader/runs/run_state.html", context), chosen.query


def _loaded_tables(state: RunState) -> bool:
    """Return True if the run loaded a table that is not raw."""
    return any(part.status == DatasetRun.Status.SUCCEEDED and part.layer != "raw" for part in state.parts)


class _Selection:
    """Selection of the run's datasets: a state, and a page, or the page with a given dataset."""

    def __init__(self, request: HttpRequest, parts: tuple[Part, ...]) -> None:
        counts = Counter(part.status for part in parts)
        self.states = [(state, counts[state]) for state in DatasetRun.Status.values if counts[state]]
        wanted = request.GET.get("state", "")
        self.state = wanted if wanted in counts else ""
        self._all = parts
        keys = [part.key for part in parts if self.state in ("", part.status)]
        dataset = request.GET.get("dataset", "")
        if dataset in keys:
            self.page: Page = Paginator(keys, PER_PAGE).get_page(keys.index(dataset) // PER_PAGE + 1)
        else:
            self.page = one_page(request, keys, PER_PAGE)

    @property
    def query(self) -> str:
        """Return the query string of this selection."""
        return self._with(self.page.number)

    @property
    def before(self) -> str:
        return self._with(self.page.previous_page_number())

    @property
    def after(self) -> str:
        return self._with(self.page.next_page_number())

    def _with(self, page: int) -> str:
        return urlencode({"state": self.state, "page": page})

    def urls(self) -> dict[str, str]:
        """Return the address of each dataset, on this page or on the page that has it."""
        shown = set(self.page.object_list)
        return {
            part.key: f"#dataset-{part.key}" if part.key in shown else f"?dataset={part.key}#dataset-{part.key}"
            for part in self._all
        }


def _layers(state: RunState, page: Page, user: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the rows of a page by layer, each with the datasets it waits for, its time bar and its slack."""
    run, picture = state.run, state.picture
    names = {part.key: part.name for part in state.parts}
    bars = picture.bars(start=run.started_at, end=run.finished_at or timezone.now())
    rows = DatasetRun.objects.filter(run=run, dataset_key__in=list(page.object_list)).order_by("ordinal", "pk")
    checks = results_of_run(run.pk, list(page.object_list), user)
    layers: dict[str, list[dict[str, Any]]] = {}
    for row in with_readable_windows(run, rows.select_related("dataset__schema", "reverted_by"), user):
        key = str(row.dataset_key)
        waiting = row.depends_on if row.status == DatasetRun.Status.QUEUED else []
        layers.setdefault(row.kind, []).append(
            {
                "row": row,
                "waits_for": [names[upstream] for upstream in waiting if upstream in names],
                "bar": bars.get(key),
                "checks": checks.get(key),
                "critical": picture.is_critical(key),
                "slack": picture.path.slack.get(key) if row.seconds is not None else None,
            }
        )
    return list(layers.items())


def _decisions(run: LoadRun) -> list[dict[str, str]]:
    """Return the decisions with which a run can be repeated whose datasets were refused without them."""
    if run.status not in LoadRun.RESTARTABLE:
        return []
    codes = set(DatasetRun.objects.filter(run=run, error__isnull=False).values_list("error__code", flat=True))
    return [decision for code, decision in _DECISIONS.items() if code in codes]


def _approval(user: Any, run: LoadRun) -> dict[str, Any] | None:
    """Return the reason for which the approval button is disabled; None for a run that waits for no approval.

    ``reason`` is empty if the button is enabled. A run that was blocked under a stricter policy may lack no approval
    any more.
    """
    if not is_unapproved(run):
        return None
    try:
        if not missing_approvals(run):
            return None
    except Refused as refused:
        return {"reason": refused.one_line()}
    if run.environment.name != settings.ENVIRONMENT:
        return {"reason": f"Approve the run in the installation of environment {run.environment.name}"}
    if not may(user, Permission.APPROVE_REPORTS, on=here):
        return {"reason": "Ask for the approver role to approve runs"}
    own = who_answers(user) in requesters(run)
    return {"reason": "You requested this run; another user must approve it" if own else ""}


def request_details(run: LoadRun) -> list[tuple[str, str]]:
    """Return the details of a maintenance run's request, as names with values."""
    request_details = dict(run.details.get("asked") or {})
    request_details |= {f"{kind} files": paths for kind, paths in request_details.pop("files", {}).items()}
    request_details |= request_details.pop("reading", {})
    request_details |= request_details.pop("rows", {})
    shown = ((name, value) for name, value in request_details.items() if value not in (None, "", "none", {}))
    return [(name.replace("_", " "), _detail_text(value)) for name, value in shown]


def _detail_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {'NULL' if item is None else item}" for name, item in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
