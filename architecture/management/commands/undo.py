"""Command that creates the undo report of an execution, or of some of its operations."""

from argparse import ArgumentParser
from typing import Any

from architecture.management.report_commands import REFUSED_EXIT
from architecture.models import ChangeReport, ExecutionRecord
from architecture.selectors.environments import record_named
from architecture.services.reports import operations_of, refresh_state, report_document, table_keys
from architecture.services.undo import ground_of, undo_report
from elevata.accounts.cli import ProductCommand
from elevata.accounts.permissions import current_actor


class Command(ProductCommand):
    help = (
        "Create the change report that undoes an execution, as the user of the token in ELEVATA_TOKEN; it is "
        "approved, previewed and executed like any other. The metadata stay unchanged: change them back as well, or "
        "the next report repeats the change. Ends with 0, or 2 if it is refused (with "
        "the reason's code)."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("record", metavar="RECORD", help="the record's id, as 'manage.py records' lists it")
        parser.add_argument(
            "--operation",
            metavar="N",
            type=int,
            action="append",
            help="undo only the operation with this ordinal in the record (from 0) and its group; repeatable",
        )
        parser.add_argument("--local", action="store_true", help="refresh in this process")

    def run(self, *, record: str, operation: list[int] | None, local: bool, **_: Any) -> None:
        found = record_named(record)
        refresh_state(environment=found.environment, keys=lambda: _tables_of(found), local=local or None)
        report = undo_report(record=found, user=current_actor().user, operations=operation)
        self.print_json(
            report_document(report) | {"report": str(report.report_id), "environment": report.environment.name}
        )
        if not self._as_json:
            self._tell(report)

    def _tell(self, report: ChangeReport) -> None:
        self.say(f"report {report.report_id} is {report.get_status_display().lower()}")
        for one in operations_of(report):
            self.say(f"  {one.decision.replace('_', ' ')}  {one.describe()}")
        for warning in report.document["warnings"]:
            self.say(f"  warning  {warning['code']}: {warning['message']}")
        self.say(f"fingerprint {report.fingerprint}")


def _tables_of(record: ExecutionRecord) -> frozenset[str]:
    """Return the stable keys of all tables of the record's datasets: before it, after it, and now."""
    ground = ground_of(record)
    sides = (ground.applied, ground.before, ground.left)
    keys = ground.before.keys() | ground.left.keys()
    return table_keys(side[key] for side in sides for key in keys if side.get(key) is not None)
