"""Next step in words: its reason, its button, and the page or form behind it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.urls import reverse

from architecture.domain import report_states
from architecture.forms import ScopeForm
from architecture.models import ChangeReport
from architecture.selectors.pending import Pending
from elevata.core.words import counted
from elevata.jobs import states
from loader.domain import next_steps
from loader.selectors.next_step_facts import Known
from metadata.domain.scope import ALL, DATASET, SELECTION
from metadata.domain.selection import MAX_WORDS

# Users that are named.
NAMED = 5
# Datasets that one button loads; a longer list is loaded as everything.
_LOADED_BY_NAME = 20


@dataclass(frozen=True)
class NextStep:
    """Next step: ``do`` (one of ``next_steps.STEPS``), the reason for it, and how to take it.

    ``address`` is a page, or with ``is_form`` the target of a form with ``fields``. ``who`` are the users who can take
    it, ``refusal`` is the reason why this user cannot. ``ask`` are address and text of the comment that asks them,
    ``page`` is the page on which the step is taken.
    """

    do: str
    text: str
    button: str = ""
    address: str = ""
    is_form: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    who: tuple[str, ...] = ()
    refusal: str = ""
    ask: tuple[str, str] = ("", "")
    page: str = ""
    pending: Pending | None = None

    @property
    def is_needed(self) -> bool:
        return self.do != next_steps.NOTHING

    @property
    def others(self) -> int:
        """Return the number of users besides those who are named."""
        return max(0, len(self.who) - NAMED)

    def as_json(self) -> dict[str, Any]:
        """Return the step for REST and commands."""
        return {
            "do": self.do,
            "text": self.text,
            "who": list(self.who),
            "allowed": self.is_needed and not self.refusal,
            "refusal": self.refusal,
            "page": self.page,
        }


def text_of(do: str, known: Known) -> NextStep:
    """Return a step without the users who can take it."""
    return replace(_DESCRIPTIONS[do](known), do=do, pending=known.pending if known.facts.pending else None)


def _step(text: str, button: str, address: str, **fields: str) -> NextStep:
    """Return a step whose button sends a form with these fields."""
    return NextStep("", text, button, address, is_form=True, fields=fields)


def _page(text: str, button: str, address: str) -> NextStep:
    return NextStep("", text, button, address)


def _wait(known: Known) -> NextStep:
    if known.execution is not None and known.execution.status in states.ACTIVE:
        address = reverse("execution_page", args=[known.execution.pk])
        return _page("The report is being executed.", "Show execution", address)
    assert known.run is not None  # only runs and executions are active
    return _page("A load is running.", "Show load", reverse("run_page", args=[known.run.run_id]))


def _resume(known: Known) -> NextStep:
    assert known.execution is not None
    text = f"The execution is {known.execution.get_status_display().lower()}; its finished steps are not repeated."
    if known.execution.report is None:
        return _page(text, "Show execution", reverse("execution_page", args=[known.execution.pk]))
    return _step(text, "Resume execution", reverse("execution_resume", args=[known.execution.pk]))


def _report_of(known: Known) -> tuple[ChangeReport, str]:
    assert known.report is not None  # the rule gives these steps for reports only
    return known.report, reverse("report_page", args=[known.report.report_id])


def _approve(known: Known) -> NextStep:
    report, address = _report_of(known)
    text = f"The report of {report.title} needs {counted(known.facts.missing, 'approval')}."
    return _page(text, "Approve report", f"{address}#approvals")


def _preview(known: Known) -> NextStep:
    report, _ = _report_of(known)
    text = f"The report of {report.title} has no preview of its statements."
    return _step(text, "Create preview", reverse("report_preview", args=[report.report_id]))


def _execute(known: Known) -> NextStep:
    report, address = _report_of(known)
    text = f"The report of {report.title} can be executed."
    if known.pending is not None:  # who executes has seen the preview, which the report's page shows
        return _page(text, "Execute report", f"{address}#execute")
    steps = len(known.preview.document["steps"])
    button = f"Execute {counted(steps, 'step')}" if steps else "Execute"
    return _step(
        text, button, reverse("report_execute", args=[report.report_id]), preview=str(known.preview.fingerprint)
    )


def _open_newer(known: Known) -> NextStep:
    report, _ = _report_of(known)
    newer = report.superseded_by
    address = reverse("report_page", args=[newer.report_id]) if newer is not None else reverse("report_list")
    return _page("A newer report replaced this one.", "Open newer report", address)


def _create_report(known: Known) -> NextStep:
    facts = known.facts
    if facts.report == report_states.REJECTED:
        text = "The report was rejected. Change the metadata, then create a new one."
    elif facts.is_outdated:
        text = "The report is outdated."
    else:
        verb = "is" if facts.pending == 1 else "are"
        text = f"{counted(facts.pending, 'change')} {verb} not in the warehouse."
        if known.run is not None and known.run.status == states.BLOCKED:
            text = f"{counted(facts.pending, 'change')} must be executed before the load."
    return _step(text, "Create report", reverse("report_build"), **ScopeForm.values_of(known.scope))


def _change_metadata(known: Known) -> NextStep:
    text = "The change policy blocks the changes: take them back, or change the policy."
    if known.dataset is not None:
        return _page(text, "Show changes", reverse("dataset_changes", args=[known.dataset.key]))
    return _page(text, "Show operations", f"{_report_of(known)[1]}#operations")


def _retire(known: Known) -> NextStep:
    assert known.column is not None
    text = f"The change policy blocks the removal of {known.column.name}. A retired column stays, with its values."
    return _page(text, "Retire instead", reverse("column_retire", args=[known.column.key]))


def _review_proposal(known: Known) -> NextStep:
    assert known.proposal is not None
    address = reverse("source_proposal", args=[known.proposal.key])
    return _page("The source differs from its contract.", "Review proposal", address)


def _generate(known: Known) -> NextStep:
    assert known.source is not None
    address = reverse("source_generate", args=[known.source.key])
    return _page("No tables are generated yet.", "Generate targets", address)


def _approve_run(known: Known) -> NextStep:
    assert known.run is not None
    address = reverse("run_approve", args=[known.run.run_id])
    return _page("The run waits for the approval of another user.", "Approve run", address)


def _load_rest(known: Known) -> NextStep:
    assert known.source is not None
    text = f"Rows of {known.source} do not fit. Correct the delivery, or quarantine these rows and load the others."
    return _step(text, "Load the rest", reverse("source_load_rest", args=[known.source.key]))


def _load_again(known: Known) -> NextStep:
    assert known.run is not None
    text = f"The last load is {known.run.get_status_display().lower()}. Finished datasets are not loaded again."
    return _step(text, "Load again", reverse("run_again", args=[known.run.run_id]))


def _load(known: Known) -> NextStep:
    if known.facts.pending:
        verb = "is" if known.facts.pending == 1 else "are"
        text = f"{counted(known.facts.pending, 'change')} {verb} not in the warehouse. The next load applies them."
    elif known.execution is None and known.run is None:
        text = "Nothing is loaded yet."
    else:
        text = "The tables have changed since the last load, which fills new columns."
    names = " ".join(known.loads)
    if len(known.loads) == 1:
        fields = {"scope": DATASET, "dataset": names}
    elif known.loads and len(known.loads) <= _LOADED_BY_NAME and len(names) <= MAX_WORDS:
        fields = {"scope": SELECTION, "selection": names}
    else:
        fields = {"scope": ALL}
    return _step(text, "Load", reverse("run_start"), **fields)


def _nothing(known: Known) -> NextStep:
    return NextStep("", "Nothing to do.")


_DESCRIPTIONS: Mapping[str, Callable[[Known], NextStep]] = {
    next_steps.WAIT: _wait,
    next_steps.RESUME: _resume,
    next_steps.APPROVE: _approve,
    next_steps.PREVIEW: _preview,
    next_steps.EXECUTE: _execute,
    next_steps.OPEN_NEWER: _open_newer,
    next_steps.CREATE_REPORT: _create_report,
    next_steps.CHANGE_METADATA: _change_metadata,
    next_steps.RETIRE: _retire,
    next_steps.REVIEW_PROPOSAL: _review_proposal,
    next_steps.GENERATE: _generate,
    next_steps.APPROVE_RUN: _approve_run,
    next_steps.LOAD_REST: _load_rest,
    next_steps.LOAD_AGAIN: _load_again,
    next_steps.LOAD: _load,
    next_steps.NOTHING: _nothing,
}
