"""Check of the histories in the warehouse."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from elevata.core.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.jobs import states
from elevata.jobs.processes import process_name
from elevata.jobs.selectors import live_workers
from loader.domain.runs.refusals import Refusal
from loader.management.waiting import NoWorker, follow_read
from loader.models import ReadRequest
from loader.services.queries.reads import (
    CHECK,
    CHECK_SAMPLES,
    MOST_CHECK_SAMPLES,
    perform_read,
    request_read,
    withdraw_read,
)
from loader.services.runner.supervisor import Runner
from loader.services.runs.table_checks import historized
from metadata.models import TargetDataset

FINE, FINDINGS, NOT_LOADED, NOT_CHECKED = "fine", "findings", "not_loaded", "not_checked"


def _samples(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_CHECK_SAMPLES:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST_CHECK_SAMPLES}")
    return int(text)


class Command(ProductCommand):
    """Command to check every invariant of history on the real tables. Without a name, every history is checked."""

    help = (
        "Check histories: keys and hashes, intervals, neighbours, states, partitions, and the rawcore table that "
        "follows the open versions. Nothing is written to the warehouse. Ends with 0 if all is well, 1 if something "
        "was found or could not be checked, 4 for an unknown dataset."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("datasets", nargs="*", metavar="DATASET", help="S.D, of the dataset or of its history")
        parser.add_argument(
            "--samples",
            type=_samples,
            default=CHECK_SAMPLES,
            metavar="N",
            help=f"keys to name per finding; default: {CHECK_SAMPLES}",
        )
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, datasets: list[str], samples: int, local: bool, **options: Any) -> None:
        try:
            chosen = historized(datasets)
        except Refusal as refusal:
            raise CommandExit(INVALID, refusal.one_line(), refusal.code) from refusal
        checked = self._locally(chosen, samples) if local else self._in_worker(chosen, samples)
        found = [one for one in checked if one["status"] == FINDINGS]
        failed = [one for one in checked if one["status"] == NOT_CHECKED]
        self.print_json({"histories": checked, "findings": sum(len(one["findings"]) for one in found)})
        if found or failed:
            said = [f"{len(found)} of {len(checked)} histories have findings"] if found else []
            said += [f"{len(failed)} could not be checked"] if failed else []
            raise CommandExit(FAILED, "; ".join(said), FINDINGS if found else NOT_CHECKED)
        self.say(f"{len(checked)} histories checked, no findings")

    def _in_worker(self, chosen: list[TargetDataset], samples: int) -> list[dict[str, Any]]:
        if chosen and not live_workers().exists():
            raise NoWorker

        def answered(dataset: TargetDataset) -> ReadRequest:
            asked = request_read(kind=CHECK, dataset=dataset, arguments={"samples": samples})
            if asked.reason:
                withdraw_read(read=asked.read)
                raise CommandExit(FAILED, f"the broker does not answer: {asked.reason}", "broker_down")
            return follow_read(asked.read)

        return self._each(chosen, answered)

    def _locally(self, chosen: list[TargetDataset], samples: int) -> list[dict[str, Any]]:
        name = process_name()
        runner = Runner(holder=f"manage.py check_history --local, {name}")

        def answered(dataset: TargetDataset) -> ReadRequest:
            read = request_read(kind=CHECK, dataset=dataset, arguments={"samples": samples}, wake_worker=False).read
            try:
                return perform_read(read_pk=read.pk, worker=name, runner=runner) or follow_read(read)
            except KeyboardInterrupt:
                withdraw_read(read=read)
                raise

        try:
            runner.start()  # refused here if the folder is in use, before anything is asked
            return self._each(chosen, answered)
        finally:
            runner.close()

    def _each(
        self, chosen: list[TargetDataset], answered: Callable[[TargetDataset], ReadRequest]
    ) -> list[dict[str, Any]]:
        """Check one history after the other, so that reads of pages come in between."""
        checked = []
        for dataset in chosen:
            checked.append(_described(dataset, answered(dataset)))
            for line in _lines(checked[-1]):
                self.say(line)
        return checked


def _described(dataset: TargetDataset, read: ReadRequest) -> dict[str, Any]:
    if read.status != states.SUCCEEDED:
        error = read.error or {"code": "UNEXPECTED", "message": "the check ended without saying why"}
        status = NOT_LOADED if error["code"] == "NO_TABLE" else NOT_CHECKED
        return {"dataset": str(dataset), "status": status, "error": error, "findings": []}
    answer = read.answer or {}
    return {"dataset": str(dataset), "status": FINDINGS if answer["findings"] else FINE, **answer}


def _lines(checked: dict[str, Any]) -> list[str]:
    name, status = checked["dataset"], checked["status"]
    if status == NOT_LOADED:
        return [f"{name}: nothing was loaded yet"]
    if status == NOT_CHECKED:
        return [f"{name}: not checked: {Refusal.from_json(checked['error']).one_line()}"]
    lines = [f"{name}: {checked['versions']:,} versions, {'no findings' if status == FINE else 'findings:'}"]
    for finding in checked["findings"]:
        samples = "; ".join(_sample(one) for one in finding["samples"])
        lines.append(
            f"  {finding['code']}: {finding['count']:,} {finding['message']}" + (f": {samples}" * bool(samples))
        )
    if checked.get("rawcore_behind"):
        lines.append("  rawcore has not followed the newest run: a load is under way, or was killed; run it again")
    return lines


def _sample(sample: dict[str, Any]) -> str:
    key = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in sample["key"].items())
    return f"{key} from {sample['start']}" if "start" in sample else key
