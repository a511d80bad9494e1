"""Execution of an approved, previewed change report: in the worker, or with --local in this process."""

import threading
from argparse import ArgumentParser
from typing import Any

from django.db import connection

from architecture.domain.reports import workflow
from architecture.management.decision_command import REFUSED_EXIT, report_argument
from architecture.models import ChangeReport, Execution
from architecture.report_places import place_of_report
from architecture.selectors import report_named
from architecture.services.actors import must_be_permitted
from architecture.services.executions.executions import abandon_execution, cancel_execution, request_execution
from elevata.core.cli import FAILED, CommandExit, ProductCommand
from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.processes import process_name
from elevata.jobs.selectors import live_workers
from loader.domain.runs.refusals import Refusal
from loader.management.execution_command import StepLines, described, follow_execution
from loader.management.waiting import NoWorker
from loader.services.runner.supervisor import Runner
from loader.services.runs.executions import perform_execution
from metadata.domain.roles import Permission
from metadata.services.actor import current_actor

_RETRY_SECONDS = 1.0


class Command(ProductCommand):
    """Command to execute a report. A failed, cancelled or lost execution is resumed without finished steps."""

    help = (
        "Execute a change report as the person whose personal token is in ELEVATA_TOKEN, and wait for the end. "
        "Ends with 0, 1 if it failed, 2 if it is refused (with the reason's code)."
    )
    refused_exit = REFUSED_EXIT

    def make_runner(self, holder: str) -> Runner:
        return Runner(holder=holder)

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument("--preview", default="", metavar="FINGERPRINT", help="refuse unless this is the preview")
        parser.add_argument("--abandon", default="", metavar="REASON", help="end an execution that will not go on")
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, report: str, preview: str, abandon: str, local: bool, **_: Any) -> None:
        found, person = report_named(report), current_actor().user
        must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_report(found))
        if abandon:
            self._abandon(found, person, abandon)
            return
        lines = StepLines(self.say)
        do = self._locally if local else self._in_worker
        try:
            execution, asked_here = do(found, person, preview, lines)
            if execution.status == states.LOST and not asked_here:
                # The process of an earlier call that performed it is gone: this user requests it anew.
                self.say(f"execution {execution.pk} was lost with its process: it goes on here")
                execution, _ = do(found, person, preview, lines)
        except NoWorker as nobody:
            raise CommandExit(FAILED, nobody.one_line(), nobody.code) from nobody
        self._finish(execution)

    def _in_worker(self, report: ChangeReport, person: Any, preview: str, lines: StepLines) -> tuple[Execution, bool]:
        """Return the execution when it has ended, and whether this call requested it, not an earlier one."""
        if not live_workers().exists():
            raise NoWorker
        asked = request_execution(
            report=report, person=person, preview_fingerprint=preview, command="manage.py execute"
        )
        asked.send_wakeup()
        if asked.reason:
            cancel_execution(execution=asked.execution, person=person)
            raise CommandExit(FAILED, f"the broker does not answer: {asked.reason}", "broker_down")
        return follow_execution(asked.execution, lines.show, person=person), asked.requested

    def _locally(self, report: ChangeReport, person: Any, preview: str, lines: StepLines) -> tuple[Execution, bool]:
        """Do as ``_in_worker``, but perform it in a thread, so that this one can show it and react to Ctrl-C."""
        name = process_name()
        runner = self.make_runner(f"manage.py execute --local, {name}")
        stopping = threading.Event()
        try:
            try:
                runner.start()  # refused here if the folder is in use, before anything is asked
            except Refusal as busy:
                raise CommandExit(FAILED, busy.one_line(), busy.code) from busy
            asked = request_execution(
                report=report, person=person, preview_fingerprint=preview, command="manage.py execute --local"
            )
            work = (asked.execution.pk, name, runner, stopping)
            working = threading.Thread(target=_work, args=work, name="execution", daemon=True)
            working.start()
            execution = follow_execution(asked.execution, lines.show, person=person, is_somebody_there=working.is_alive)
            working.join()
            return execution, asked.requested
        finally:
            stopping.set()
            runner.close()

    def _abandon(self, report: ChangeReport, person: Any, reason: str) -> None:
        execution = report.executions.filter(abandoned=False).first()
        if execution is None:
            raise workflow.Refused("NOT_RESUMABLE", "the report has no execution that could be abandoned")
        ended = abandon_execution(execution=execution, person=person, reason=reason)
        self.print_json(described(ended))
        self.say(f"execution {ended.pk} {ended.status}: record {ended.record.record_id}")

    def _finish(self, execution: Execution) -> None:
        self.print_json(described(execution))
        spent = f" in {execution.seconds:.1f} s" if execution.seconds is not None else ""
        said = f"execution {execution.pk} {execution.status}{spent}"
        if execution.status == states.SUCCEEDED:
            self.say(f"{said}: record {execution.record.record_id}")
            return
        error = execution.error or {}
        refused = error.get("code") in workflow.CODES and not execution.operations.filter(status="succeeded").exists()
        parts = [str(error[name]) for name in ("message", "hint") if error.get(name)]
        raise CommandExit(
            REFUSED_EXIT if refused else FAILED,
            ": ".join(filter(None, (said, error.get("code", ""), "; ".join(parts)))),
            error.get("code", execution.status),
        )


def _work(execution_pk: int, name: str, runner: Runner, stopping: threading.Event) -> None:
    """Perform the execution; while another holder has a lease, try again until it is released."""
    try:
        waiting = Execution.objects.filter(pk=execution_pk, status=states.QUEUED)
        while not stopping.is_set() and retried(waiting.exists):
            if perform_execution(execution_pk=execution_pk, worker=name, runner=runner, stopping=stopping) is None:
                stopping.wait(_RETRY_SECONDS)
    finally:
        connection.close()
