"""Command that runs quality checks on tables as they are."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit
from elevata.jobs import states
from loader.contract.check_outcomes import PASSED, PROBLEMS, Result
from loader.contract.refusals import Refusal
from loader.domain.dependencies import datasets_selected
from loader.management.run_command import ReadingCommand
from loader.models import ReadRequest
from loader.services.reads.read_requests import QUALITY, request_read
from metadata.domain.selection import HINT, is_name
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states
from metadata.selectors.datasets import tags_by_key


class Command(ReadingCommand):
    """Command to run the quality checks of datasets on their tables, by default of all datasets with checks."""

    help = (
        "Run quality checks on tables as they are; their results are stored. Nothing is written to the warehouse. Ends "
        "with 0 if no check that stops loads failed, 1 if one did or could not run, 4 for an unknown dataset."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "datasets", nargs="*", metavar="DATASET", help=f"S.D, or words that select datasets with checks. {HINT}"
        )
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, datasets: list[str], local: bool, **options: Any) -> None:
        try:
            chosen = _datasets(datasets)
        except Refusal as refusal:
            raise CommandExit(INVALID, refusal.one_line(), refusal.code) from refusal
        reports = []
        if chosen:
            with self.reading(local=local) as read:
                for dataset in chosen:
                    reports.append(_report(dataset, read(partial(request_read, kind=QUALITY, dataset=dataset))))
                    for line in _lines(reports[-1]):
                        self.say(line)
        self.print_json({"datasets": reports})
        stopping = [name for report in reports for name in report["stopping"]]
        if stopping:
            raise CommandExit(FAILED, f"failed are {', '.join(stopping)}", "QUALITY_STOPPED")
        self.say(f"{len(reports)} datasets checked")


def _datasets(names: list[str]) -> list[TargetDataset]:
    """Return the named datasets and those with active checks that words select, or all with active checks.

    Raise Refusal UNKNOWN_DATASET or NOTHING_SELECTED.
    """
    rows = TargetDataset.objects.filter(active=True, history_of=None).select_related("schema")
    checked = rows.filter(checks__active=True).distinct().order_by("schema__name", "name")
    if not names:
        return list(checked)
    by_key, tags = {state.key: state for state in dataset_states()}, tags_by_key()
    chosen: dict[TargetDataset, None] = {}
    for name in names:
        keys = [state.key for state in datasets_selected(by_key, name, tags)]
        chosen |= dict.fromkeys((rows if is_name(name) else checked).filter(key__among=keys))
    return list(chosen)


def _report(dataset: TargetDataset, read: ReadRequest) -> dict[str, Any]:
    """Return the results of a dataset; ``stopping`` are the checks that would stop its load."""
    if read.status != states.SUCCEEDED:
        error = read.error or {"code": "UNEXPECTED", "message": "the read ended without an answer"}
        return {"dataset": str(dataset), "error": error, "results": [], "stopping": [str(dataset)]}
    results = (read.answer or {})["results"]
    stopping = [f"{dataset}.{result['name']}" for result in results if Result.from_json(result).stops]
    return {"dataset": str(dataset), "results": results, "stopping": stopping}


def _lines(report: dict[str, Any]) -> list[str]:
    name = report["dataset"]
    if "error" in report:
        return [f"{name}: not checked: {Refusal.from_json(report['error']).one_line()}"]
    results = [Result.from_json(result) for result in report["results"]]
    passed = sum(result.outcome == PASSED for result in results)
    failed = [result for result in results if result.outcome in PROBLEMS]
    return [f"{name}: {passed} of {len(results)} checks passed", *(f"  {result.line}" for result in failed)]
