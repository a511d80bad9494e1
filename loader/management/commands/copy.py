"""Command that makes the copies of datasets, or compares them."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, CommandExit
from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.management.run_command import RunningCommand
from loader.management.run_output import ending
from loader.models import LoadRun
from loader.selectors.copies import active_copies
from loader.services.copies.requests import request_copy

_INVALID = ("UNKNOWN_DATASET", "NO_COPIES", "NOT_LOADED")


class Command(RunningCommand):
    """Command to make or compare the copies of datasets."""

    help = (
        "Make the copies of datasets in other databases and folders; without a name those of all datasets. A copy that "
        "has the present version, rows and checksum is left as it is. With --check nothing is written. Exit codes: 0 "
        "done, or no findings; 1 failed, or findings; 4 on invalid input."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("datasets", nargs="*", metavar="S.D", help="datasets; default: all that have copies")
        parser.add_argument("--check", action="store_true", help="compare only: version, number of rows, checksum")
        parser.add_argument("--reason", default="", help="reason, stored with the runs")
        self.local_argument(parser)

    def run(self, *args: Any, **options: Any) -> None:
        names = options["datasets"] or sorted({str(copy.dataset) for copy in active_copies()})
        request = partial(request_copy, check=options["check"], reason=options["reason"], user=current_actor().user)
        try:
            ended = self._copied(names, request, local=options["local"]) if names else []
        except Refusal as refusal:
            if refusal.code in _INVALID:
                raise CommandExit(INVALID, refusal.one_line(), refusal.code) from None
            raise
        lines = [line for run in ended for line in self._described(run)]
        copies = [copy for run in ended for copy in run.details.get("copies", [])]
        self.print_json({"runs": [run.run_id for run in ended], "copies": copies})
        failed = [run for run in ended if run.status != states.SUCCEEDED]
        has_findings = options["check"] and any(copy["error"] or copy["findings"] for copy in copies)
        for line in lines:
            self.say(line)
        if failed:
            raise CommandExit(FAILED, ending(failed[0]), failed[0].status)
        if has_findings:
            raise CommandExit(FAILED, "some copies differ", "differs")
        self.say("no copies" if not names else "all copies are up to date")

    def _copied(self, names: list[str], request: Any, *, local: bool) -> list[LoadRun]:
        with self.runs(local=local) as perform:
            return [perform(partial(request, dataset=name), lambda *_: None) for name in names]

    @staticmethod
    def _described(run: LoadRun) -> list[str]:
        lines = []
        for copy in run.details.get("copies", []):
            error = copy["error"]
            state = f"{error['code']}: {error['message']}" if error else f"{copy['status']}, {copy['row_count']} rows"
            lines.append(f"{run.scope['name']} in {copy['to']}: {state}")
            lines += [f"  {text}" for text in (*copy["warnings"], *copy["findings"])]
        return lines
