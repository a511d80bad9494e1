"""Users of the demo, and a change of structure in all its steps: described, approved, executed, verified."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from architecture.domain.reports import workflow
from architecture.domain.reports.artifacts import verify
from architecture.domain.reports.scope import Scope
from architecture.models import ChangeReport, Execution, ExecutionRecord
from architecture.selectors import applied_states
from architecture.services.executions.executions import request_execution
from architecture.services.executions.records import record_artifact
from architecture.services.policies.policies import loosening_of, update_policies
from architecture.services.reports.approvals import approvals_missing, approve
from architecture.services.reports.previews import make_preview
from architecture.services.reports.report_inputs import tables_in_scope
from architecture.services.reports.reports import build_report, tables_of
from architecture.services.states.environments import current_environment
from architecture.services.states.observed_states import look
from elevata.core.cli import FAILED, CommandExit
from elevata.jobs import states
from loader.domain.runs.refusals import Refusal
from loader.management.execution_command import follow_execution
from metadata.domain.chain import parse_head
from metadata.domain.roles import Role
from metadata.services import chain
from metadata.services.people import ensure_person

RECORDS = "records"
# New columns need an approval, so that the demo shows one; loads create tables without.
_POLICY = {
    "severities": {"ADD_COLUMN": "needs_approval"},
    "approvals": {"review": {"count": 1, "role": Role.APPROVER.value}},
}


@dataclass(frozen=True)
class Person:
    """A user of the demo, with the password to sign in."""

    user: Any
    role: Role
    password: str

    @property
    def name(self) -> str:
        return self.user.get_username()


@dataclass(frozen=True)
class People:
    """Users of the demo by their role; ``admin`` may do everything but approve their own change."""

    admin: Person
    editor: Person
    approver: Person
    operator: Person

    @classmethod
    def made(cls) -> "People":
        """Create all four, with new passwords, and a change policy by which added columns need an approval."""
        people = cls(
            admin=_person("demo", Role.ADMIN),
            editor=_person("edda", Role.EDITOR),
            approver=_person("aron", Role.APPROVER),
            operator=_person("otto", Role.OPERATOR),
        )
        environment = current_environment()
        # It may have been made stricter since, which one user alone cannot take back.
        if not loosening_of(environment, _POLICY):
            update_policies(
                environment=environment,
                policies=_POLICY,
                expected_version=environment.policies_version,
                person=people.admin.user,
            )
        return people

    def __iter__(self) -> Iterator[Person]:
        return iter((self.admin, self.editor, self.approver, self.operator))


def _person(name: str, role: Role) -> Person:
    password = secrets.token_urlsafe(9)
    # It is printed by the demo, so it need not be replaced at the first sign-in.
    user = ensure_person(name=name, roles=[role], password=password, temporary=False)
    return Person(user, role, password)


def has_tables() -> bool:
    """Return whether anything was applied: before that, the first load creates all tables as they are described."""
    return bool(applied_states(environment=current_environment()))


def carry_out(*, scope: Scope, people: People, folder: Path) -> ExecutionRecord | None:
    """Apply the editor's change to the warehouse: report, approval, preview, execution, verification.

    The record is written to ``folder`` and verified from that file. Return None if nothing differs.
    """
    report = _report(scope, people)
    if report.status == workflow.NO_CHANGES:
        return None
    if approvals_missing(report):
        approve(report=report, person=people.approver.user, note="comes with the delivery")
    look(environment=report.environment, keys=tables_of(report), sizes=True, local=False)
    preview = make_preview(report=report, person=people.operator.user)
    execution = _executed(report, preview.fingerprint, people)
    record = execution.record
    _prove(record, folder / RECORDS)
    return record


def _report(scope: Scope, people: People) -> ChangeReport:
    environment = current_environment()
    look(environment=environment, keys=tables_in_scope(environment=environment, scope=scope), local=False)
    return build_report(environment=environment, scope=scope, person=people.editor.user)


def _executed(report: ChangeReport, preview: str, people: People) -> Execution:
    operator = people.operator.user
    asked = request_execution(report=report, person=operator, preview_fingerprint=preview, command="manage.py demo")
    asked.send_wakeup()
    if asked.reason:
        raise CommandExit(FAILED, f"the broker does not answer: {asked.reason}", "broker_down")
    execution = follow_execution(asked.execution, lambda *_: None, person=operator)
    if execution.status != states.SUCCEEDED:
        said = Refusal.from_json(execution.error).one_line() if execution.error else execution.status
        raise CommandExit(FAILED, f"the change was not executed: {said}")
    return execution


def _prove(record: ExecutionRecord, folder: Path) -> None:
    """Export the record and verify it from the file alone, then verify the whole chain."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{record.record_id}.json"
    place.write_text(json.dumps(record_artifact(record), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    artifact = json.loads(place.read_text(encoding="utf-8"))
    findings = verify(artifact)
    if findings:
        raise CommandExit(FAILED, f"{place}: {findings[0].where}: {findings[0].message}", findings[0].code)
    found = chain.verify(against=parse_head(artifact))
    if found.problem is not None:
        raise CommandExit(FAILED, f"the chain is broken: {found.problem.message}", found.problem.code)


def told(columns: list[str], record: ExecutionRecord) -> str:
    """Return one line about a change that was executed."""
    document = record.document
    approved = [one["person"] for one in document["approvals"] if one["decision"] == workflow.YES]
    by = f"approved by {', '.join(approved)}" if approved else "no approval needed"
    authors = ", ".join(record.execution.report.authors)
    return (
        f"  {', '.join(columns)}: described by {authors}, {by}, executed by {document['requested_by']} in "
        f"{len(document['operations'])} steps; record {record.record_id} verifies"
    )
