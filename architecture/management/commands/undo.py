"""Command that creates the undo report of an execution, or of some of its operations."""

from argparse import ArgumentParser
from typing import Any

from architecture.management.report_commands import REFUSED_EXIT
from architecture.models import ChangeReport, ExecutionRecord
from architecture.selectors.executions import record_named
from architecture.services.report_basis import table_keys
from architecture.services.reports import operations_of, refresh_state, report_document
from architecture.services.undo import undo_report
from architecture.services.undo_options import undo_state
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import ProductCommand


class Command(ProductCommand):
    help = (
        "Create the change report that undoes an execution, as the user of the token in ELEVATA_TOKEN; it is "
        "approved, previewed and executed like any other. Without --metadata, undo the change in the metadata, too, or "
        "the next report repeats it. Exit code: 0, or 2 if undo is refused; the message then starts with the code."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("record", metavar="RECORD", help="the record's id, as 'manage.py records' lists it")
        parser.add_argument(
            "--operation",
            metavar="N",
            type=int,
            action="append",
            help="undo only this operation and its group; counts from 1, as 'manage.py records' prints it; repeatable",
        )
        parser.add_argument("--metadata", action="store_true", help="change the metadata back at once, too")
        parser.add_argument("--local", action="store_true", help="refresh in this process")

    def run(self, *, record: str, operation: list[int] | None, metadata: bool, local: bool, **_: Any) -> None:
        row = record_named(record)
        refresh_state(environment=row.environment, keys=lambda: _table_keys(row), local=local or None)
        ordinals = None if operation is None else [number - 1 for number in operation]
        report = undo_report(record=row, user=current_actor().user, operations=ordinals, metadata=metadata)
        self.print_json(
            report_document(report) | {"report": str(report.report_id), "environment": report.environment.name}
        )
        if not self._as_json:
            self._print_report(report)

    def _print_report(self, report: ChangeReport) -> None:
        self.say(f"report {report.report_id} is {report.get_status_display().lower()}")
        for row in operations_of(report):
            self.say(f"  {row.decision.replace('_', ' ')}  {row.describe()}")
        for warning in report.document["warnings"]:
            self.say(f"  warning  {warning['code']}: {warning['message']}")
        self.say(f"fingerprint {report.fingerprint}")


def _table_keys(record: ExecutionRecord) -> frozenset[str]:
    """Return the stable keys of all tables of the record's datasets: before it, after it, and now."""
    state = undo_state(record)
    sides = (state.applied, state.before, state.left)
    keys = state.before.keys() | state.left.keys()
    states = (side.get(key) for side in sides for key in keys)
    return table_keys(state for state in states if state is not None)
