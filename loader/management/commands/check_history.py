"""Command that checks the histories in the warehouse."""

from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit
from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.management.run_command import ReadingCommand
from loader.models import ReadRequest
from loader.services.reads.manifests import historized
from loader.services.reads.read_requests import CHECK, CHECK_SAMPLES, MOST_CHECK_SAMPLES, request_read
from metadata.domain.selection import HINT
from metadata.models import TargetDataset

FINE, FINDINGS, NOT_LOADED, NOT_CHECKED = "fine", "findings", "not_loaded", "not_checked"


def _samples(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_CHECK_SAMPLES:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST_CHECK_SAMPLES}")
    return int(text)


class Command(ReadingCommand):
    """Command to check all invariants of histories on their tables, by default of all histories."""

    help = (
        "Check histories: keys and hashes, intervals, neighbours, states, partitions, and the rawcore table that "
        "follows the open versions. Nothing is written to the warehouse. Ends with 0 if all is well, 1 if something "
        "was found or could not be checked, 4 for an unknown dataset."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "datasets", nargs="*", metavar="DATASET", help=f"S.D, of the dataset or of its history, or words. {HINT}"
        )
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
        results = self._check_all(chosen, samples, local=local) if chosen else []
        with_findings = [result for result in results if result["status"] == FINDINGS]
        failed = [result for result in results if result["status"] == NOT_CHECKED]
        self.print_json({"histories": results, "findings": sum(len(result["findings"]) for result in with_findings)})
        if with_findings or failed:
            message = [f"{len(with_findings)} of {len(results)} histories have findings"] if with_findings else []
            message += [f"{len(failed)} could not be checked"] if failed else []
            raise CommandExit(FAILED, "; ".join(message), FINDINGS if with_findings else NOT_CHECKED)
        self.say(f"{len(results)} histories checked, no findings")

    def _check_all(self, chosen: list[TargetDataset], samples: int, *, local: bool) -> list[dict[str, Any]]:
        """Check one history after another, so that other reads can run in between."""
        results = []
        with self.reading(local=local) as read:
            for dataset in chosen:
                request = partial(request_read, kind=CHECK, dataset=dataset, arguments={"samples": samples})
                results.append(_result(dataset, read(request)))
                for line in _result_lines(results[-1]):
                    self.say(line)
        return results


def _result(dataset: TargetDataset, read: ReadRequest) -> dict[str, Any]:
    if read.status != states.SUCCEEDED:
        error = read.error or {"code": "UNEXPECTED", "message": "the check ended without saying why"}
        status = NOT_LOADED if error["code"] == "NO_TABLE" else NOT_CHECKED
        return {"dataset": str(dataset), "status": status, "error": error, "findings": []}
    answer = read.answer or {}
    return {"dataset": str(dataset), "status": FINDINGS if answer["findings"] else FINE, **answer}


def _result_lines(result: dict[str, Any]) -> list[str]:
    name, status = result["dataset"], result["status"]
    if status == NOT_LOADED:
        return [f"{name}: nothing was loaded yet"]
    if status == NOT_CHECKED:
        return [f"{name}: not checked: {Refusal.from_json(result['error']).one_line()}"]
    lines = [f"{name}: {result['versions']:,} versions, {'no findings' if status == FINE else 'findings:'}"]
    for finding in result["findings"]:
        samples = "; ".join(_sample(sample) for sample in finding["samples"])
        lines.append(
            f"  {finding['code']}: {finding['count']:,} {finding['message']}" + (f": {samples}" * bool(samples))
        )
    if result.get("rawcore_behind"):
        lines.append("  rawcore has not followed the newest run: a load is under way, or was killed; run it again")
    return lines


def _sample(sample: dict[str, Any]) -> str:
    key = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in sample["key"].items())
    return f"{key} from {sample['start']}" if "start" in sample else key
