"""Command that checks the histories in the warehouse."""

from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit
from elevata.jobs import states
from loader.domain.refusals import Refusal
from loader.management.run_command import ReadingCommand
from loader.models import ReadRequest
from loader.services.reads.read_requests import CHECK, CHECK_SAMPLES, MOST_CHECK_SAMPLES, historized, request_read
from metadata.models import TargetDataset

FINE, FINDINGS, NOT_LOADED, NOT_CHECKED = "fine", "findings", "not_loaded", "not_checked"


def _samples(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_CHECK_SAMPLES:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST_CHECK_SAMPLES}")
    return int(text)


class Command(ReadingCommand):
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
        checked = self._checked(chosen, samples, local=local) if chosen else []
        found = [one for one in checked if one["status"] == FINDINGS]
        failed = [one for one in checked if one["status"] == NOT_CHECKED]
        self.print_json({"histories": checked, "findings": sum(len(one["findings"]) for one in found)})
        if found or failed:
            message = [f"{len(found)} of {len(checked)} histories have findings"] if found else []
            message += [f"{len(failed)} could not be checked"] if failed else []
            raise CommandExit(FAILED, "; ".join(message), FINDINGS if found else NOT_CHECKED)
        self.say(f"{len(checked)} histories checked, no findings")

    def _checked(self, chosen: list[TargetDataset], samples: int, *, local: bool) -> list[dict[str, Any]]:
        """Check one history after the other, so that reads of pages run in between."""
        checked = []
        with self.reading(local=local) as read:
            for dataset in chosen:
                request = partial(request_read, kind=CHECK, dataset=dataset, arguments={"samples": samples})
                checked.append(_described(dataset, read(request)))
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
        samples = "; ".join(_sample(sample) for sample in finding["samples"])
        lines.append(
            f"  {finding['code']}: {finding['count']:,} {finding['message']}" + (f": {samples}" * bool(samples))
        )
    if checked.get("rawcore_behind"):
        lines.append("  rawcore has not followed the newest run: a load is under way, or was killed; run it again")
    return lines


def _sample(sample: dict[str, Any]) -> str:
    key = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in sample["key"].items())
    return f"{key} from {sample['start']}" if "start" in sample else key
