"""Status of a report: the part of its page that is refreshed every two seconds, and its buttons."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from architecture import report_validity
from architecture.domain.reports import workflow
from architecture.models import ChangeReport, Execution, Preview
from architecture.report_details import against, standing
from architecture.services.reports.previews import newest_preview
from architecture.services.reports.reports import authors_of_report
from architecture.views.decisions import as_sentence
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states

# Reports in these states may still be carried out, so whether they still hold matters.
_ALIVE = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.NO_CHANGES)
# With these nothing can be done any more; nothing happens in a report without changes either.
_CLOSED = (workflow.BLOCKED, workflow.REJECTED, workflow.SUPERSEDED, workflow.NO_CHANGES)


@dataclass
class State:
    """A report with all that people have done with it."""

    report: ChangeReport

    @cached_property
    def executions(self) -> list[Execution]:
        return list(self.report.executions.select_related("requested_by", "record").order_by("-pk"))

    @cached_property
    def execution(self) -> Execution | None:
        """The one that counts."""
        return next((one for one in self.executions if one.status != states.ABANDONED), None)

    @cached_property
    def preview(self) -> Preview | None:
        return newest_preview(self.report)

    @property
    def alive(self) -> bool:
        """True if it may still be executed, and nobody has requested that."""
        return self.report.status in _ALIVE and self.execution is None

    @cached_property
    def mark(self) -> str:
        """Another one once somebody decided on the report, previewed or executed it."""
        execution = self.execution.pk if self.execution else 0
        preview = self.preview.fingerprint if self.preview else ""
        return sha256_hex([str(self.report.status), self.report.approvals.count(), execution, preview])[:12]

    @cached_property
    def signal(self) -> str:
        return report_validity.signal(self.report.environment_id)

    @cached_property
    def authors(self) -> frozenset[str]:
        return report_validity.authors(self.report, self.signal) if self.alive else authors_of_report(self.report)

    def refusal(self, *, ask: bool) -> dict[str, Any]:
        """Return why the report is outdated, in sentences; {} if it is up to date. ``ask``: rebuild it to find out."""
        if not self.alive:
            return {}
        known = report_validity.refusal_of(self.report, self.signal) if ask else self._known
        said = dict(known or {})
        return said | {part: as_sentence(said[part]) for part in ("message", "hint") if said.get(part)}

    @cached_property
    def _known(self) -> dict[str, Any] | None:
        return report_validity.known_refusal(self.report.report_id, self.signal)

    def context(self, user: Any, *, ask: bool = False) -> dict[str, Any]:
        """Return the context of templates for the status and the buttons."""
        refusal = self.refusal(ask=ask)
        return {
            "standing": against(standing(self.report, user, self.authors), refusal),
            "refusal": refusal,
            "holds": self.alive and not refusal and (ask or self._known is not None),
            "alive": self.alive,
            "mark": self.mark,
            "seen": f"{self.mark}.{self.signal}" if self.alive and (ask or self._known is not None) else "",
            "execution": self.execution,
            "decidable": self.report.status == workflow.OPEN,
            "closed": self.report.status in _CLOSED,
            "step_count": len(self.preview.document["steps"]) if self.preview else 0,
        }


def state_of(report: ChangeReport) -> State:
    return State(report)
