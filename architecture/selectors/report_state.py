"""State of a report, and the change-log entries of its changes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from architecture.domain import report_states
from architecture.domain.operations import BLOCKED
from architecture.forms import ScopeForm
from architecture.models import ChangeReport, Execution, Preview
from architecture.permissions import may_build
from architecture.selectors import outdated_reports
from architecture.selectors.authors import authorships
from architecture.selectors.review_status import against, review_status
from architecture.services.approvals import may_withdraw
from architecture.services.previews import newest_preview
from architecture.services.reports import authors_of_report, operations_of
from elevata.audit.selectors import ShownEntry, entries
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import as_sentence
from elevata.jobs import states
from metadata.domain.scope import RESTRICTABLE, Scope
from metadata.selectors.change_log import shown_entries

# Reports in these states can still be executed, so they are checked for being up to date.
_ALIVE = (report_states.OPEN, report_states.APPROVED, report_states.BLOCKED, report_states.NO_CHANGES)
# In these states no further step of a report is possible.
_CLOSED = (
    *(report_states.BLOCKED, report_states.REJECTED, report_states.SUPERSEDED),
    *(report_states.WITHDRAWN, report_states.NO_CHANGES),
)


@dataclass
class ReportState:
    """State of a report: its preview and executions, and whether it is up to date.

    ``inputs`` are those that a check reads, if they are shared with other reads of the request.
    """

    report: ChangeReport
    inputs: outdated_reports.Inputs | None = None

    @cached_property
    def executions(self) -> list[Execution]:
        return list(self.report.executions.select_related("requested_by", "record").order_by("-pk"))

    @cached_property
    def execution(self) -> Execution | None:
        """Return the execution that was not abandoned."""
        return next((execution for execution in self.executions if execution.status != states.ABANDONED), None)

    @cached_property
    def preview(self) -> Preview | None:
        return newest_preview(self.report)

    @property
    def alive(self) -> bool:
        """Return True if the report can still be executed and no execution was requested."""
        return self.report.status in _ALIVE and self.execution is None

    @cached_property
    def mark(self) -> str:
        """Return a digest that changes with each decision, preview and execution."""
        execution = self.execution.pk if self.execution else 0
        preview = self.preview.fingerprint if self.preview else ""
        return sha256_hex([str(self.report.status), self.report.approvals.count(), execution, preview])[:12]

    @cached_property
    def signal(self) -> str:
        return self.inputs.signal if self.inputs else outdated_reports.signal(self.report.environment_id)

    @cached_property
    def authors(self) -> frozenset[str]:
        return outdated_reports.authors(self.report, self.signal) if self.alive else authors_of_report(self.report)

    def refusal(self, *, ask: bool) -> dict[str, Any]:
        """Return the reason why the report is outdated, as sentences; {} if it is up to date. ``ask``: check now."""
        if not self.alive:
            return {}
        gathered = self.inputs.gathered if self.inputs else None
        known = outdated_reports.refusal_of(self.report, self.signal, gathered) if ask else self._known
        refusal = dict(known or {})
        return refusal | {part: as_sentence(refusal[part]) for part in ("message", "hint") if refusal.get(part)}

    @cached_property
    def _known(self) -> dict[str, Any] | None:
        return outdated_reports.known_refusal(self.report.report_id, self.signal)

    def context(self, user: Any, *, ask: bool = False) -> dict[str, Any]:
        """Return the context of templates for the status and the buttons."""
        refusal = self.refusal(ask=ask)
        return {
            "review": against(review_status(self.report, user, self.authors), refusal),
            "refusal": refusal,
            "holds": self.alive and not refusal and (ask or self._known is not None),
            "alive": self.alive,
            "mark": self.mark,
            "seen": f"{self.mark}.{self.signal}" if self.alive and (ask or self._known is not None) else "",
            "execution": self.execution,
            "decidable": self.report.status == report_states.OPEN,
            "closed": self.report.status in _CLOSED,
            "may_withdraw": self._is_blocked and may_withdraw(self.report, user, self.authors),
            "scope_of_rest": self._scope_of_rest() if may_build(user) else {},
            "step_count": len(self.preview.document["steps"]) if self.preview else 0,
        }

    @property
    def _is_blocked(self) -> bool:
        return self.report.status == report_states.BLOCKED

    def _scope_of_rest(self) -> dict[str, str]:
        """Return the fields of the form that creates the report of this scope without its blocked changes.

        {} unless the report is blocked and has other changes, too.
        """
        scope = Scope.from_json(self.report.scope)
        possible = self._is_blocked and self.report.undo_of_id is None and scope.kind in RESTRICTABLE
        if not possible or all(operation.decision == BLOCKED for operation in operations_of(self.report)):
            return {}
        return ScopeForm.values_of(replace(scope, without_blocked=True))


@dataclass(frozen=True)
class Behind:
    """Newest entries of a report's changes, and the number of all."""

    entries: list[ShownEntry]
    count: int


def behind(report: ChangeReport, *, limit: int) -> Behind:
    """Return the entries of the edits that a report applies to the warehouse, newest first.

    For each of its datasets, these are the entries between the dataset's mark at the time of the report and the
    report. The result is the same before and after the report's execution.
    """
    since = report.document.get("since")
    if not since or report.undo_of_id is not None or not operations_of(report):
        return Behind([], 0)
    edits = authorships(report.environment, since)
    keys = [edit.entry for edit in edits if edit.sequence <= report.through]
    return Behind(shown_entries(entries().filter(pk__in=keys[:limit])), len(keys))
