"""Command that prints what is to be done now."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ObjectDoesNotExist

from architecture.selectors.reports import report_named
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import INVALID, ProductCommand
from elevata.core.errors import MetadataError
from elevata.core.words import suggestion
from loader.selectors.next_steps import next_step_of
from metadata.models import SourceDataset, TargetDataset


class Command(ProductCommand):
    """Command to show the next step of a dataset, source, load run, report or execution."""

    help = (
        "Print what is to be done now with a dataset, source, load run, report or execution, and by whom. Ends with 0, "
        "with 4 for an unknown name."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--dataset", metavar="S.D", help="a dataset")
        which.add_argument("--source", metavar="SYSTEM.NAME", help="a source dataset")
        which.add_argument("--report", metavar="R", help="a change report: its id or fingerprint, or the beginning")
        which.add_argument("--execution", metavar="N", type=int, help="an execution")
        which.add_argument("--run", metavar="ID", help="a load run")

    def run(self, **options: Any) -> None:
        kind, name = next((kind, options[kind]) for kind in _FOUND if options[kind] is not None)
        try:
            step = next_step_of(kind, str(_FOUND[kind](name)), current_actor().user or AnonymousUser())
        except ObjectDoesNotExist:
            raise MetadataError(f"unknown_{kind}", f"there is no {kind} {name}") from None
        self.print_json(step.as_json())
        self.say(f"{step.do}: {step.text}" if step.is_needed else step.text)
        if step.who:
            self.say(f"by {', '.join(step.who)}")


def _dataset(name: str) -> Any:
    schema, _, own = name.partition(".")
    row = TargetDataset.objects.filter(schema__name=schema, name=own).first()
    if row is None:
        names = (".".join(pair) for pair in TargetDataset.objects.values_list("schema__name", "name"))
        raise MetadataError("unknown_dataset", _missing("dataset", name, names))
    return row.key


def _source(name: str) -> Any:
    system, _, own = name.partition(".")
    row = SourceDataset.objects.filter(system__short_name=system, name=own).first()
    if row is None:
        names = (".".join(pair) for pair in SourceDataset.objects.values_list("system__short_name", "name"))
        raise MetadataError("unknown_source", _missing("source", name, names))
    return row.key


def _missing(noun: str, name: str, names: Iterable[str]) -> str:
    meant = suggestion(name, names)
    return f"there is no {noun} {name}" + (f"; {meant}" if meant else "")


_FOUND: dict[str, Any] = {
    "dataset": _dataset,
    "source": _source,
    "report": lambda text: report_named(text).report_id,
    "execution": lambda number: number,
    "run": lambda run_id: run_id,
}
