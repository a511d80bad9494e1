"""Command that publishes names in the shared catalog."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.core.processes import process_name
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.jobs.waiting import NoWorker, follow_job
from loader.contract.refusals import Refusal
from loader.domain.catalogs.publication import of_answer
from loader.models import ReadRequest
from loader.runner.supervisor import Runner
from loader.services.publication import PUBLISH, must_be_shared
from loader.services.reads.attempts import perform_read
from loader.services.reads.read_requests import request_read, withdraw_read


class Command(ProductCommand):
    """Command to publish all names in the shared catalog, or to list the differences."""

    help = (
        "Publish tables, views and functions under their names in the catalog of ELEVATA_CATALOG: missing names are "
        "created, outdated ones replaced, extra ones dropped. Names of tables outside this warehouse are never "
        "changed. Ends with 0 if the catalog has every name, 1 if a name is missing or the catalog does not answer, 4"
        " if no catalog is set."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing, list the differences")
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, check: bool, local: bool, **options: Any) -> None:
        try:
            must_be_shared()
        except Refusal as refusal:
            raise CommandExit(INVALID, refusal.one_line(), refusal.code) from refusal
        read = self._locally(check) if local else self._in_worker(check)
        if read.status != states.SUCCEEDED:
            error = Refusal.from_json(read.error or {"code": "UNEXPECTED", "message": "no reason was given"})
            raise CommandExit(FAILED, error.one_line(), error.code)
        answer = read.answer or {}
        findings = of_answer(answer)
        self.print_json(read.answer)
        for finding in findings:
            self.say(finding.one_line())
        if findings:
            left = "differ from the catalog" if check else "could not be published or removed"
            raise CommandExit(FAILED, f"{len(findings)} names {left}", "findings")
        self.say(f"{answer['names']} names are in the catalog")

    def _in_worker(self, check: bool) -> ReadRequest:
        if not live_workers():
            raise NoWorker
        requested = request_read(kind=PUBLISH, arguments={"check": check})
        if requested.reason:
            withdraw_read(read=requested.read)
            raise CommandExit(FAILED, f"the broker does not answer: {requested.reason}", "broker_down")
        return follow_job(requested.read)

    def _locally(self, check: bool) -> ReadRequest:
        name = process_name()
        runner = Runner(holder=f"manage.py publish --local, {name}")
        try:
            runner.start()  # refuses a folder that is in use, before the read is requested
            read = request_read(kind=PUBLISH, arguments={"check": check}, wake_worker=False).read
            try:
                return perform_read(read.pk, worker=name, runner=runner) or follow_job(read)
            except KeyboardInterrupt:
                withdraw_read(read=read)
                raise
        finally:
            runner.close()
