"""Demo users and the work prepared for them.

It uses the daily workflow: the editor describes, workers observe and execute, and jobs of other teams write to
their tables by a Spark of their own. Its tables are on top of the airports and not loaded, so that everything can
still be loaded.
"""

import json
import os
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from architecture.domain import workflow
from architecture.domain.artifacts import verify
from architecture.domain.current_state import DRIFTED, DatasetDrift
from architecture.domain.report import DATASET, SCHEMA, Scope
from architecture.models import ChangeReport, DryRun, Execution, ExecutionRecord
from architecture.selectors.environments import applied_states
from architecture.services.change_policy import loosening_of, update_policies
from architecture.services.drift import drift_of
from architecture.services.executions import approvals_missing, approve, request_execution
from architecture.services.previews import make_preview, request_dry_run
from architecture.services.proof import record_artifact
from architecture.services.refreshes import refresh_now
from architecture.services.reports import build_report, tables_in_scope, tables_of
from architecture.services.states import current_environment
from elevata.accounts.cli import FAILED, CommandExit
from elevata.accounts.permissions import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.domain import parse_head
from elevata.audit.services import chain
from elevata.audit.services.change_log import writing
from elevata.jobs import states
from loader.domain.refusals import Refusal
from loader.management.waiting import follow, follow_execution
from loader.models import LoadRun, Schedule
from loader.services.maintenance_runs import request_prune
from loader.services.schedules import create_schedule
from metadata.models import TargetColumn, TargetDataset
from metadata.services.exchange import import_metadata
from metadata.services.lifecycle import rename_column
from metadata.services.targets import create_target_column, update_target_column

# Users of the demo, and a change of structure in all its steps: described, approved, executed, verified.


RECORDS = "records"
# New columns need an approval, so that the demo shows one; loads create tables without.
_POLICY = {
    "severities": {"ADD_COLUMN": "needs_approval"},
    "approvals": {"review": {"count": 1, "role": Role.APPROVER.value}},
}


@dataclass(frozen=True)
class DemoUser:
    """A user of the demo, with the password to sign in."""

    user: Any
    role: Role
    password: str

    @property
    def name(self) -> str:
        return self.user.get_username()


@dataclass(frozen=True)
class DemoUsers:
    """Users of the demo by their role; ``admin`` may do everything but approve their own change."""

    admin: DemoUser
    editor: DemoUser
    approver: DemoUser
    operator: DemoUser

    @classmethod
    def made(cls) -> "DemoUsers":
        """Create all four, with new passwords, and a change policy by which added columns need an approval."""
        people = cls(
            admin=_demo_user("demo", Role.ADMIN),
            editor=_demo_user("edda", Role.EDITOR),
            approver=_demo_user("aron", Role.APPROVER),
            operator=_demo_user("otto", Role.OPERATOR),
        )
        environment = current_environment()
        # It may have been made stricter since, which one user alone cannot take back.
        if not loosening_of(environment, _POLICY):
            update_policies(
                environment=environment,
                policies=_POLICY,
                expected_version=environment.policies_version,
                user=people.admin.user,
            )
        return people

    def __iter__(self) -> Iterator[DemoUser]:
        return iter((self.admin, self.editor, self.approver, self.operator))


def _demo_user(name: str, role: Role) -> DemoUser:
    password = secrets.token_urlsafe(9)
    # It is printed by the demo, so it need not be replaced at the first sign-in.
    user = ensure_user(name=name, roles=[role], password=password, temporary=False)
    return DemoUser(user, role, password)


def has_tables() -> bool:
    """Return whether anything was applied: before that, the first load creates all described tables."""
    return bool(applied_states(environment=current_environment()))


def carry_out(*, scope: Scope, people: DemoUsers, folder: Path) -> ExecutionRecord | None:
    """Apply the editor's change to the warehouse: report, approval, preview, execution, verification.

    The record is written to ``folder`` and verified from that file. Returns None if nothing differs.
    """
    report = _refreshed_report(scope, people)
    if report.status == workflow.NO_CHANGES:
        return None
    if approvals_missing(report):
        approve(report=report, user=people.approver.user, note="comes with the delivery")
    refresh_now(environment=report.environment, keys=tables_of(report), sizes=True, local=False)
    preview = make_preview(report=report, user=people.operator.user)
    execution = _executed(report, preview.fingerprint, people)
    record = execution.record
    _prove(record, folder / RECORDS)
    return record


def _refreshed_report(scope: Scope, people: DemoUsers) -> ChangeReport:
    environment = current_environment()
    refresh_now(environment=environment, keys=tables_in_scope(environment=environment, scope=scope), local=False)
    return build_report(environment=environment, scope=scope, user=people.editor.user)


def _executed(report: ChangeReport, preview: str, people: DemoUsers) -> Execution:
    operator = people.operator.user
    asked = request_execution(report=report, user=operator, preview_fingerprint=preview, command="manage.py demo")
    asked.send_wakeup()
    if asked.reason:
        raise CommandExit(FAILED, f"the broker does not answer: {asked.reason}", "broker_down")
    execution = follow_execution(asked.execution, lambda *_: None, user=operator)
    if execution.status != states.SUCCEEDED:
        message = Refusal.from_json(execution.error).one_line() if execution.error else execution.status
        raise CommandExit(FAILED, f"the change was not executed: {message}")
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


def change_summary(columns: list[str], record: ExecutionRecord) -> str:
    """Return one line about a change that was executed."""
    document = record.document
    approved = [approval["person"] for approval in document["approvals"] if approval["decision"] == workflow.YES]
    by = f"approved by {', '.join(approved)}" if approved else "no approval needed"
    authors = ", ".join(record.execution.report.authors)
    return (
        f"  {', '.join(columns)}: described by {authors}, {by}, executed by {document['requested_by']} in "
        f"{len(document['operations'])} steps; record {record.record_id} verifies"
    )


EXAMPLE = Path(settings.BASE_DIR) / "examples" / "reporting"
SERVING = "serving"
SITE, TIMETABLE, BOARD = "serving.airports", "serving.timetable", "serving.departure_board"
AIRPORTS, ROUTES = "rawcore.rc_air_airport", "rawcore.rc_net_route"
PRUNE = "demo-prune"

_JOB_WITHIN = 180.0
_DRY_RUN_WITHIN = 120.0
_LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Work:
    """Prepared work: a report for the approver, one for its author; drift, a schedule and a prune for the operator."""

    waiting: ChangeReport
    blocked: ChangeReport
    drifted: DatasetDrift
    schedule: Schedule
    prune: LoadRun


def leave_work(*, people: DemoUsers, folder: Path) -> Work:
    """Prepare and return all of it, in a folder whose releases are loaded and whose worker answers."""
    with acting_as(people.editor.user):
        import_metadata(EXAMPLE)
    carry_out(scope=Scope(SCHEMA, SERVING), people=people, folder=folder)
    _run_others_jobs(folder)
    _edit(people)
    environment = current_environment()
    serving = tables_in_scope(environment=environment, scope=Scope(SCHEMA, SERVING))
    refresh_now(environment=environment, keys=serving, sizes=True, local=False)
    waiting, blocked = _report(TIMETABLE, people), _report(BOARD, people)
    _dry_run(waiting, people)
    work = Work(waiting, blocked, _drifted(), _schedule(people), _prune(people))
    _check(work)
    return work


def told(work: Work, people: DemoUsers) -> list[tuple[str, str]]:
    """Return names of users, each with a line about one piece of work and its page."""
    waiting, blocked = (str(report.report_id)[:8] for report in (work.waiting, work.blocked))
    (difference, *_) = work.drifted.differences
    return [
        (people.approver.name, f"Inbox: report {waiting} on {TIMETABLE} waits for an approval, after a dry run"),
        (people.editor.name, f"Inbox: report {blocked} on {BOARD} is blocked, for it would cut values off"),
        (people.operator.name, f"Drift: {SITE} has a column {difference.column} that is not in the metadata"),
        (people.operator.name, f"Schedules: {work.schedule.name}, out of use; Executions: what was carried out"),
        (people.admin.name, "Policy: what needs an approval, and from whom"),
    ]


def _run_others_jobs(folder: Path) -> None:
    """Fill the tables for reports by another Spark, which gives one of them a column that is not in the metadata."""
    names = (AIRPORTS, ROUTES, SITE, TIMETABLE, BOARD)
    tables = (Path(settings.WAREHOUSE) / str(_dataset(name).key) for name in names)
    log = folder / "logs" / "other-jobs.log"
    with log.open("w") as output:
        try:
            subprocess.run(
                [sys.executable, str(EXAMPLE / "fill.py"), *map(str, tables)],
                cwd=folder,
                env=_spark_environment(),
                stdout=output,
                stderr=output,
                timeout=_JOB_WITHIN,
                check=True,
            )
        except subprocess.SubprocessError as failure:
            raise CommandExit(FAILED, f"other teams' jobs failed; their log is {log}") from failure


def _spark_environment() -> dict[str, str]:
    """Return the environment of a separate Spark: Java, Delta's jars, little memory beside the worker's."""
    submit = ["--driver-memory", "512m"]
    jars = sorted(Path(settings.SPARK_JARS).glob("*.jar")) if settings.SPARK_JARS else []
    if jars:
        submit += ["--jars", ",".join(map(str, jars))]
    if settings.DRIVER_JAVA_OPTIONS:
        submit += ["--driver-java-options", settings.DRIVER_JAVA_OPTIONS]
    own = {"PYSPARK_SUBMIT_ARGS": shlex.join([*submit, "pyspark-shell"])}
    return {**os.environ, **own} | ({"JAVA_HOME": settings.JAVA_HOME} if settings.JAVA_HOME else {})


def _edit(people: DemoUsers) -> None:
    """Make two changes by the editor: one that needs an approval, one that would lose values of the table."""
    with acting_as(people.editor.user):
        opened = _column(TIMETABLE, "opened_on")
        rename_column(
            column=opened, name="first_flight_on", expected_version=opened.version, reason="as the timetable says it"
        )
        with writing("passengers think in kilometres"):
            create_target_column(
                dataset=_dataset(TIMETABLE),
                name="distance_km",
                type="integer",
                expression="CAST(distance_nm * 1.852 AS INT)",
                description="Great-circle distance in kilometres.",
            )
        city = _column(BOARD, "city")
        with writing("the new boards have room for twelve letters"):
            update_target_column(column=city, expected_version=city.version, type="string(12)")


def _report(dataset: str, people: DemoUsers) -> ChangeReport:
    return build_report(environment=current_environment(), scope=Scope(DATASET, dataset), user=people.editor.user)


def _dry_run(report: ChangeReport, people: DemoUsers) -> DryRun:
    """Preview and dry-run the waiting report as the operator, for the approver."""
    preview = make_preview(report=report, user=people.operator.user)
    asked = request_dry_run(preview=preview, user=people.operator.user)
    asked.send_wakeup()
    if asked.reason:
        raise CommandExit(FAILED, f"the broker does not answer: {asked.reason}", "broker_down")
    dry_run = asked.dry_run
    pause, deadline = threading.Event(), timezone.now() + timedelta(seconds=_DRY_RUN_WITHIN)
    while dry_run.status in (states.QUEUED, states.RUNNING) and timezone.now() < deadline:
        pause.wait(_LOOK_EVERY)
        dry_run.refresh_from_db()
    if dry_run.status != states.SUCCEEDED:
        message = Refusal.from_json(dry_run.error).one_line() if dry_run.error else dry_run.status
        raise CommandExit(FAILED, f"the dry run of the change did not succeed: {message}")
    return dry_run


def _drifted() -> DatasetDrift:
    found = [dataset for dataset in drift_of(current_environment()).datasets if dataset.status == DRIFTED]
    if [one.dataset for one in found] != [SITE]:
        names = ", ".join(one.dataset for one in found) or "nothing"
        raise CommandExit(FAILED, f"only {SITE} was to drift, but {names} did")
    return found[0]


def _schedule(people: DemoUsers) -> Schedule:
    """Create an inactive schedule as an example, since its releases are old."""
    with acting_as(people.operator.user):
        return create_schedule(name="Every night", cron="30 3 * * *", time_zone="Europe/Berlin", active=False)


def _prune(people: DemoUsers) -> LoadRun:
    """Prune once, for a record of a maintenance run. No version is as old as the date it names."""
    with acting_as(people.operator.user):
        asked = request_prune(
            dataset=ROUTES,
            reason="routes are kept for good, but not from before the group was founded",
            ended_before="1998-01-01",
            run_id=PRUNE,
            user=people.operator.user,
        )
    run = follow(asked.run, lambda *_: None)
    if run.status != states.SUCCEEDED:
        message = Refusal.from_json(run.error).one_line() if run.error else run.status
        raise CommandExit(FAILED, f"the routes were not pruned: {message}")
    return run


def _check(work: Work) -> None:
    """Raise CommandExit unless the reports have the states that the demo promises."""
    if (work.waiting.status, work.blocked.status) != (workflow.OPEN, workflow.BLOCKED):
        raise CommandExit(FAILED, f"reports are {work.waiting.status} and {work.blocked.status}, not open and blocked")


def _dataset(name: str) -> TargetDataset:
    schema, _, own = name.partition(".")
    return TargetDataset.objects.get(schema__name=schema, name=own)


def _column(dataset: str, name: str) -> TargetColumn:
    return _dataset(dataset).columns.get(name=name)
