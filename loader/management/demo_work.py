"""Demo users, and the work that the demo prepares for them.

The demo follows the daily workflow: the editor changes metadata, workers observe and execute, and jobs of other teams
write to their tables with their own Spark. These tables depend on the airports and are not loaded, so that all load
runs still succeed.
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

from architecture.domain import decisions, report_states
from architecture.domain.artifacts import verify
from architecture.domain.states.dataset_drift import DRIFTED, DatasetDrift
from architecture.models import ChangeReport, DryRun, Execution, ExecutionRecord
from architecture.selectors.dataset_states import applied_states
from architecture.services.approvals import approvals_missing, approve
from architecture.services.change_policy import loosening_of, update_policies
from architecture.services.drift import drift_of
from architecture.services.dry_runs import request_dry_run
from architecture.services.environments import current_environment
from architecture.services.execution_records import record_artifact
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.refreshes import refresh_now
from architecture.services.report_basis import tables_in_scope
from architecture.services.reports import build_report, tables_of
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import FAILED, CommandExit
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.hash_chain import parse_head
from elevata.audit.services.transactions import writing
from elevata.audit.services.verification import verify_chain
from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.management.waiting import follow, follow_execution
from loader.models import LoadRun, Schedule
from loader.schedules.services import create_schedule
from loader.services.maintenance.approvals import approve_maintenance, missing_approvals
from loader.services.maintenance.prunes import request_prune
from metadata.domain.scope import DATASET, SCHEMA, Scope
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import create_target_column, update_target_column
from metadata.services.exchange.metadata_files import import_metadata
from metadata.services.lifecycle import rename_column

RECORDS = "records"
# New columns need an approval, so that the demo shows one; tables that loads create need none.
_POLICY = {
    "severities": {"ADD_COLUMN": "needs_approval"},
    "approvals": {"review": {"count": 1, "role": Role.APPROVER.value}},
}


@dataclass(frozen=True)
class DemoUser:
    """User of the demo, with the password."""

    user: Any
    role: Role
    password: str

    @property
    def name(self) -> str:
        return self.user.get_username()


@dataclass(frozen=True)
class DemoUsers:
    """Users of the demo by role; ``admin`` may do everything except approve their own changes."""

    admin: DemoUser
    editor: DemoUser
    approver: DemoUser
    operator: DemoUser

    @classmethod
    def made(cls) -> "DemoUsers":
        """Create the four users with new passwords, and a change policy by which new columns need an approval."""
        people = cls(
            admin=_demo_user("demo", Role.ADMIN),
            editor=_demo_user("edda", Role.EDITOR),
            approver=_demo_user("aron", Role.APPROVER),
            operator=_demo_user("otto", Role.OPERATOR),
        )
        environment = current_environment()
        # If the policy was made stricter meanwhile, one user alone cannot loosen it.
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
    # The demo prints the password, so the user need not replace it.
    user = ensure_user(name=name, roles=[role], password=password, temporary=False)
    return DemoUser(user, role, password)


def has_tables() -> bool:
    """Return True if there is an applied state; before that, the first load creates all tables."""
    return bool(applied_states(environment=current_environment()))


def carry_out(*, scope: Scope, people: DemoUsers, folder: Path) -> ExecutionRecord | None:
    """Apply the editor's change to the warehouse by report, approval, preview, execution and verification.

    Return the execution record, which is exported to ``folder`` and verified there; None if nothing differs.
    """
    report = _refresh_and_report(scope, people)
    if report.status == report_states.NO_CHANGES:
        return None
    if approvals_missing(report):
        approve(report=report, user=people.approver.user, note="comes with the delivery")
    refresh_now(environment=report.environment, keys=tables_of(report), sizes=True, local=False)
    preview = make_preview(report=report, user=people.operator.user)
    execution = _execute_report(report, preview.fingerprint, people)
    record = execution.record
    _export_and_verify(record, folder / RECORDS)
    return record


def _refresh_and_report(scope: Scope, people: DemoUsers) -> ChangeReport:
    environment = current_environment()
    refresh_now(environment=environment, keys=tables_in_scope(environment=environment, scope=scope), local=False)
    return build_report(environment=environment, scope=scope, user=people.editor.user)


def _execute_report(report: ChangeReport, preview: str, people: DemoUsers) -> Execution:
    operator = people.operator.user
    requested = request_execution(report=report, user=operator, preview_fingerprint=preview, command="manage.py demo")
    requested.send_wakeup()
    if requested.reason:
        raise CommandExit(FAILED, f"the broker does not answer: {requested.reason}", "broker_down")
    execution = follow_execution(requested.execution, lambda *_: None, user=operator)
    if execution.status != states.SUCCEEDED:
        message = Refusal.from_json(execution.error).one_line() if execution.error else execution.status
        raise CommandExit(FAILED, f"the change was not executed: {message}")
    return execution


def _export_and_verify(record: ExecutionRecord, folder: Path) -> None:
    """Export the record, verify the file, and verify the whole chain."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.record_id}.json"
    path.write_text(json.dumps(record_artifact(record), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    artifact = json.loads(path.read_text(encoding="utf-8"))
    findings = verify(artifact)
    if findings:
        raise CommandExit(FAILED, f"{path}: {findings[0].where}: {findings[0].message}", findings[0].code)
    verification = verify_chain(against=parse_head(artifact))
    if verification.problem is not None:
        raise CommandExit(FAILED, f"the chain is broken: {verification.problem.message}", verification.problem.code)


def change_summary(columns: list[str], record: ExecutionRecord) -> str:
    """Return one line about an executed change."""
    document = record.document
    approved = [approval["person"] for approval in document["approvals"] if approval["decision"] == decisions.YES]
    by = f"approved by {', '.join(approved)}" if approved else "no approval needed"
    assert record.execution.report is not None
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

_JOB_TIMEOUT = 180.0
_DRY_RUN_TIMEOUT = 120.0
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Work:
    """Prepared work: an open report, a blocked report, drift, a schedule and a prune."""

    waiting: ChangeReport
    blocked: ChangeReport
    drifted: DatasetDrift
    schedule: Schedule
    prune: LoadRun


def leave_work(*, people: DemoUsers, folder: Path) -> Work:
    """Prepare and return the work; the folder's releases must be loaded, and its worker must be alive."""
    with acting_as(people.editor.user):
        import_metadata(EXAMPLE)
    carry_out(scope=Scope(SCHEMA, SERVING), people=people, folder=folder)
    _run_other_jobs(folder)
    _change_metadata(people)
    environment = current_environment()
    serving = tables_in_scope(environment=environment, scope=Scope(SCHEMA, SERVING))
    refresh_now(environment=environment, keys=serving, sizes=True, local=False)
    waiting, blocked = _report(TIMETABLE, people), _report(BOARD, people)
    _dry_run(waiting, people)
    work = Work(waiting, blocked, _expected_drift(), _schedule(people), _prune(people))
    _check(work)
    return work


def prepared_tasks(work: Work, people: DemoUsers) -> list[tuple[str, str]]:
    """Return lines about the prepared work and its pages, each with the name of its user."""
    waiting, blocked = (str(report.report_id)[:8] for report in (work.waiting, work.blocked))
    (difference, *_) = work.drifted.differences
    return [
        (people.approver.name, f"Inbox: report {waiting} on {TIMETABLE} waits for an approval, after a dry run"),
        (people.editor.name, f"Inbox: report {blocked} on {BOARD} is blocked, for it would cut values off"),
        (people.operator.name, f"Drift: {SITE} has a column {difference.column} that is not in the metadata"),
        (people.operator.name, f"Schedules: {work.schedule.name}, out of use; Executions: what was carried out"),
        (people.admin.name, "Policy: what needs an approval, and from whom"),
    ]


def _run_other_jobs(folder: Path) -> None:
    """Fill the serving tables with another Spark, which adds a column to one that is not in the metadata."""
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
                timeout=_JOB_TIMEOUT,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise CommandExit(FAILED, f"other teams' jobs failed; their log is {log}") from error


def _spark_environment() -> dict[str, str]:
    """Return the environment of a separate Spark: Java, Delta's jars and a small memory."""
    submit = ["--driver-memory", "512m"]
    jars = sorted(Path(settings.SPARK_JARS).glob("*.jar")) if settings.SPARK_JARS else []
    if jars:
        submit += ["--jars", ",".join(map(str, jars))]
    if settings.DRIVER_JAVA_OPTIONS:
        submit += ["--driver-java-options", settings.DRIVER_JAVA_OPTIONS]
    variables = {"PYSPARK_SUBMIT_ARGS": shlex.join([*submit, "pyspark-shell"])}
    return {**os.environ, **variables} | ({"JAVA_HOME": settings.JAVA_HOME} if settings.JAVA_HOME else {})


def _change_metadata(people: DemoUsers) -> None:
    """Change metadata as the editor: one change needs an approval, the other would truncate values."""
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
    """Preview the open report and request its dry run as the operator."""
    preview = make_preview(report=report, user=people.operator.user)
    requested = request_dry_run(preview=preview, user=people.operator.user)
    requested.send_wakeup()
    if requested.reason:
        raise CommandExit(FAILED, f"the broker does not answer: {requested.reason}", "broker_down")
    dry_run = requested.dry_run
    pause, deadline = threading.Event(), timezone.now() + timedelta(seconds=_DRY_RUN_TIMEOUT)
    while dry_run.status in (states.QUEUED, states.RUNNING) and timezone.now() < deadline:
        pause.wait(_POLL_SECONDS)
        dry_run.refresh_from_db()
    if dry_run.status != states.SUCCEEDED:
        message = Refusal.from_json(dry_run.error).one_line() if dry_run.error else dry_run.status
        raise CommandExit(FAILED, f"the dry run of the change did not succeed: {message}")
    return dry_run


def _expected_drift() -> DatasetDrift:
    drifted = [dataset for dataset in drift_of(current_environment()).datasets if dataset.status == DRIFTED]
    if [dataset_drift.dataset for dataset_drift in drifted] != [SITE]:
        names = ", ".join(dataset_drift.dataset for dataset_drift in drifted) or "nothing"
        raise CommandExit(FAILED, f"only {SITE} was to drift, but {names} did")
    return drifted[0]


def _schedule(people: DemoUsers) -> Schedule:
    """Create an example schedule; it is inactive, because no new releases arrive."""
    with acting_as(people.operator.user):
        return create_schedule(name="Every night", cron="30 3 * * *", time_zone="Europe/Berlin", active=False)


def _prune(people: DemoUsers) -> LoadRun:
    """Run a prune, for its record; no version is as old as its date."""
    with acting_as(people.operator.user):
        requested = request_prune(
            dataset=ROUTES,
            reason="routes are kept for good, but not from before the group was founded",
            ended_before="1998-01-01",
            run_id=PRUNE,
            user=people.operator.user,
        )
    if missing_approvals(requested.run):
        approve_maintenance(run=requested.run, user=people.approver.user, note="no version is as old")
    run = follow(requested.run, lambda *_: None)
    if run.status != states.SUCCEEDED:
        message = Refusal.from_json(run.error).one_line() if run.error else run.status
        raise CommandExit(FAILED, f"the routes were not pruned: {message}")
    return run


def _check(work: Work) -> None:
    """Raise CommandExit unless one report is open and the other blocked."""
    if (work.waiting.status, work.blocked.status) != (report_states.OPEN, report_states.BLOCKED):
        raise CommandExit(FAILED, f"reports are {work.waiting.status} and {work.blocked.status}, not open and blocked")


def _dataset(name: str) -> TargetDataset:
    schema, _, own = name.partition(".")
    return TargetDataset.objects.get(schema__name=schema, name=own)


def _column(dataset: str, name: str) -> TargetColumn:
    return _dataset(dataset).columns.get(name=name)
