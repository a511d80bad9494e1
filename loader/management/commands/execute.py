"""Command that executes an approved, previewed change report: by the worker, or with --local in this process."""

import threading
from argparse import ArgumentParser
from typing import Any

from django.db import connection

from architecture.domain import refusals
from architecture.management.report_commands import REFUSED_EXIT, report_argument
from architecture.models import ChangeReport, Execution
from architecture.permissions import must_be_permitted, place_of_report
from architecture.selectors.reports import report_named
from architecture.services.executions import abandon_execution, cancel_execution, request_execution
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, CommandExit, ProductCommand
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.core.processes import process_name
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.jobs.waiting import NoWorker
from loader.contract.refusals import Refusal
from loader.management.waiting import StepLines, described, follow_execution
from loader.runner.supervisor import Runner
from loader.services.executions import perform_execution

_RETRY_SECONDS = 1.0


class Command(ProductCommand):
    """Command to execute a report, or to resume a failed, cancelled or lost execution after its finished steps."""

    help = (
        "Execute a change report as the user of the token in ELEVATA_TOKEN, and wait for the end. "
        "Ends with 0, 1 if it failed, 2 if it is refused (with the reason's code)."
    )
    refused_exit = REFUSED_EXIT

    def make_runner(self, holder: str) -> Runner:
        return Runner(holder=holder)

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument(
            "--preview", default="", metavar="FINGERPRINT", help="fingerprint of the preview; another one is refused"
        )
        parser.add_argument("--abandon", default="", metavar="REASON", help="abandon an execution that cannot continue")
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, report: str, preview: str, abandon: str, local: bool, **_: Any) -> None:
        change_report, user = report_named(report), current_actor().user
        must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(change_report))
        if abandon:
            self._abandon(change_report, user, abandon)
            return
        lines = StepLines(self.say)
        execute = self._locally if local else self._in_worker
        try:
            execution, requested = execute(change_report, user, preview, lines)
            if execution.status == states.LOST and not requested:
                # The process of the earlier call has ended, so this user requests the execution again.
                self.say(f"execution {execution.pk} was lost with its process: it goes on here")
                execution, requested = execute(change_report, user, preview, lines)
        except NoWorker as error:
            raise CommandExit(FAILED, error.one_line(), error.code) from error
        self._finish(execution)

    def _in_worker(self, report: ChangeReport, user: Any, preview: str, lines: StepLines) -> tuple[Execution, bool]:
        """Return the finished execution, and True if this call requested it, not an earlier one."""
        if not live_workers():
            raise NoWorker
        submitted = request_execution(
            report=report, user=user, preview_fingerprint=preview, command="manage.py execute"
        )
        submitted.send_wakeup()
        if submitted.reason:
            cancel_execution(execution=submitted.execution, user=user)
            raise CommandExit(FAILED, f"the broker does not answer: {submitted.reason}", "broker_down")
        return follow_execution(submitted.execution, lines.show, user=user), submitted.requested

    def _locally(self, report: ChangeReport, user: Any, preview: str, lines: StepLines) -> tuple[Execution, bool]:
        """Execute in a thread of this process, so that the main thread can show progress and react to Ctrl-C."""
        name = process_name()
        runner = self.make_runner(f"manage.py execute --local, {name}")
        stopping = threading.Event()
        try:
            try:
                runner.start()  # refuses a folder that is in use, before any request
            except Refusal as error:
                raise CommandExit(FAILED, error.one_line(), error.code) from error
            submitted = request_execution(
                report=report, user=user, preview_fingerprint=preview, command="manage.py execute --local"
            )
            work = (submitted.execution.pk, name, runner, stopping)
            thread = threading.Thread(target=_perform, args=work, name="execution", daemon=True)
            thread.start()
            execution = follow_execution(submitted.execution, lines.show, user=user, has_worker=thread.is_alive)
            thread.join()
            return execution, submitted.requested
        finally:
            stopping.set()
            runner.close()

    def _abandon(self, report: ChangeReport, user: Any, reason: str) -> None:
        execution = report.executions.filter(abandoned=False).first()
        if execution is None:
            raise refusals.Refused("NOT_RESUMABLE", "the report has no execution that could be abandoned")
        ended = abandon_execution(execution=execution, user=user, reason=reason)
        self.print_json(described(ended))
        self.say(f"execution {ended.pk} {ended.status}: record {ended.record.record_id}")

    def _finish(self, execution: Execution) -> None:
        self.print_json(described(execution))
        spent = f" in {execution.seconds:.1f} s" if execution.seconds is not None else ""
        message = f"execution {execution.pk} {execution.status}{spent}"
        if execution.status == states.SUCCEEDED:
            self.say(f"{message}: record {execution.record.record_id}")
            return
        error = execution.error or {}
        refused = error.get("code") in refusals.CODES and not execution.operations.filter(status="succeeded").exists()
        parts = [str(error[name]) for name in ("message", "hint") if error.get(name)]
        raise CommandExit(
            REFUSED_EXIT if refused else FAILED,
            ": ".join(filter(None, (message, error.get("code", ""), "; ".join(parts)))),
            error.get("code", execution.status),
        )


def _perform(execution_pk: int, name: str, runner: Runner, stopping: threading.Event) -> None:
    """Perform the execution; if another holder has a lease, retry until it is released."""
    try:
        waiting = Execution.objects.filter(pk=execution_pk, status=states.QUEUED)
        while not stopping.is_set() and retried(waiting.exists):
            if perform_execution(execution_pk, worker=name, runner=runner, stopping=stopping) is None:
                stopping.wait(_RETRY_SECONDS)
    finally:
        connection.close()
