"""Work that the demo prepares for its users: a change to approve, one that is blocked, a table that drifted.

All of it is made as in daily work: the editor describes, workers observe and execute, and jobs of other
teams write to their tables by a Spark of their own. It is about tables on top of the airports, which no
load writes: so everything can still be loaded.
"""

import os
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from architecture.domain.reports import workflow
from architecture.domain.reports.scope import DATASET, SCHEMA, Scope
from architecture.domain.states.drift import DRIFTED, DatasetDrift
from architecture.models import ChangeReport, Rehearsal
from architecture.services.reports.dry_runs import request_rehearsal
from architecture.services.reports.previews import make_preview
from architecture.services.reports.report_inputs import tables_in_scope
from architecture.services.reports.reports import build_report
from architecture.services.states.drift import drift_of
from architecture.services.states.environments import current_environment
from architecture.services.states.observed_states import look
from elevata.core.cli import FAILED, CommandExit
from elevata.jobs import states
from loader.domain.runs.refusals import Refusal
from loader.management.demo_control import People, carry_out
from loader.management.waiting import follow
from loader.models import LoadRun, Schedule
from loader.services.maintenance.maintenance import request_prune
from loader.services.runs.schedules import create_schedule
from metadata.models import TargetColumn, TargetDataset
from metadata.services.actor import acting_as
from metadata.services.common import writing
from metadata.services.exchange import import_metadata
from metadata.services.lifecycle import rename_column
from metadata.services.targets import create_target_column, update_target_column

EXAMPLE = Path(settings.BASE_DIR) / "examples" / "reporting"
SERVING = "serving"
SITE, TIMETABLE, BOARD = "serving.airports", "serving.timetable", "serving.departure_board"
AIRPORTS, ROUTES = "rawcore.rc_air_airport", "rawcore.rc_net_route"
PRUNE = "demo-prune"

_JOB_WITHIN = 180.0
_REHEARSED_WITHIN = 120.0
_LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Work:
    """Prepared work: a report for the approver, one for its author; drift, a schedule and a prune for the operator."""

    waiting: ChangeReport
    blocked: ChangeReport
    drifted: DatasetDrift
    schedule: Schedule
    prune: LoadRun


def leave_work(*, people: People, folder: Path) -> Work:
    """Prepare and return all of it, in a folder whose releases are loaded and whose worker answers."""
    with acting_as(people.editor.user):
        import_metadata(EXAMPLE)
    carry_out(scope=Scope(SCHEMA, SERVING), people=people, folder=folder)
    _run_others_jobs(folder)
    _edit(people)
    environment = current_environment()
    serving = tables_in_scope(environment=environment, scope=Scope(SCHEMA, SERVING))
    look(environment=environment, keys=serving, sizes=True, local=False)
    waiting, blocked = _report(TIMETABLE, people), _report(BOARD, people)
    _rehearse(waiting, people)
    work = Work(waiting, blocked, _drifted(), _schedule(people), _prune(people))
    _check(work)
    return work


def told(work: Work, people: People) -> list[tuple[str, str]]:
    """Return names of users, each with a line about one piece of work and its page."""
    waiting, blocked = (str(report.report_id)[:8] for report in (work.waiting, work.blocked))
    (difference, *_) = work.drifted.differences
    return [
        (people.approver.name, f"Inbox: report {waiting} on {TIMETABLE} waits for an approval, after a dry run"),
        (people.editor.name, f"Inbox: report {blocked} on {BOARD} is blocked, for it would cut values off"),
        (people.operator.name, f"Drift: {SITE} has a column {difference.column} that nobody described"),
        (people.operator.name, f"Schedules: {work.schedule.name}, out of use; Executions: what was carried out"),
        (people.admin.name, "Policy: what needs an approval, and from whom"),
    ]


def _run_others_jobs(folder: Path) -> None:
    """Fill the tables for reports by another Spark, which gives one of them a column that nobody described."""
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


def _edit(people: People) -> None:
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


def _report(dataset: str, people: People) -> ChangeReport:
    return build_report(environment=current_environment(), scope=Scope(DATASET, dataset), person=people.editor.user)


def _rehearse(report: ChangeReport, people: People) -> Rehearsal:
    """Preview and dry-run the waiting report as the operator, so that the approver sees what it would do."""
    preview = make_preview(report=report, person=people.operator.user)
    asked = request_rehearsal(preview=preview, person=people.operator.user)
    asked.send_wakeup()
    if asked.reason:
        raise CommandExit(FAILED, f"the broker does not answer: {asked.reason}", "broker_down")
    rehearsal = asked.rehearsal
    pause, deadline = threading.Event(), timezone.now() + timedelta(seconds=_REHEARSED_WITHIN)
    while rehearsal.status in (states.QUEUED, states.RUNNING) and timezone.now() < deadline:
        pause.wait(_LOOK_EVERY)
        rehearsal.refresh_from_db()
    if rehearsal.status != states.SUCCEEDED:
        said = Refusal.from_json(rehearsal.error).one_line() if rehearsal.error else rehearsal.status
        raise CommandExit(FAILED, f"the dry run of the change did not succeed: {said}")
    return rehearsal


def _drifted() -> DatasetDrift:
    found = [one for one in drift_of(current_environment()).datasets if one.status == DRIFTED]
    if [one.dataset for one in found] != [SITE]:
        names = ", ".join(one.dataset for one in found) or "nothing"
        raise CommandExit(FAILED, f"only {SITE} was to drift, but {names} did")
    return found[0]


def _schedule(people: People) -> Schedule:
    """Create a schedule that is not active, since its releases are old: an example that starts nothing by itself."""
    with acting_as(people.operator.user):
        return create_schedule(name="Every night", cron="30 3 * * *", time_zone="Europe/Berlin", active=False)


def _prune(people: People) -> LoadRun:
    """Prune once, for a record of a maintenance run. No version is as old as the date it names."""
    with acting_as(people.operator.user):
        asked = request_prune(
            dataset=ROUTES,
            reason="routes are kept for good, but not from before the group was founded",
            ended_before="1998-01-01",
            run_id=PRUNE,
            person=people.operator.user,
        )
    run = follow(asked.run, lambda *_: None)
    if run.status != states.SUCCEEDED:
        said = Refusal.from_json(run.error).one_line() if run.error else run.status
        raise CommandExit(FAILED, f"the routes were not pruned: {said}")
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
