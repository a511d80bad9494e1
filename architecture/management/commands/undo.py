"""Take an execution back, whole or by its operations: a new report, through the same gate."""

from argparse import ArgumentParser
from typing import Any

from architecture.management.decision_command import REFUSED_EXIT
from architecture.models import ChangeReport, ExecutionRecord
from architecture.selectors import record_named
from architecture.services.reports.report_inputs import table_keys
from architecture.services.reports.reports import look_again, operations_of, shown
from architecture.services.reports.undo_options import ground_of
from architecture.services.reports.undo_reports import undo_report
from elevata.core.cli import ProductCommand
from metadata.services.actor import current_actor


class Command(ProductCommand):
    help = (
        "Make the change report that takes an execution back, as the person whose personal token is in "
        "ELEVATA_TOKEN; it is approved, previewed and executed like any other. The metadata stay as they are: bring "
        "them back, too, or the next report makes the same change again. Ends with 0, or 2 if it is refused (with "
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
            help="take back only this one, by its ordinal in the record (from 0), and what belongs to it; repeatable",
        )
        parser.add_argument("--local", action="store_true", help="look at the tables in this process")

    def run(self, *, record: str, operation: list[int] | None, local: bool, **_: Any) -> None:
        found = record_named(record)
        look_again(environment=found.environment, keys=lambda: _tables_of(found), local=local or None)
        report = undo_report(record=found, person=current_actor().user, operations=operation)
        self.print_json(shown(report) | {"report": str(report.report_id), "environment": report.environment.name})
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
    """Stable keys of the tables of the record's datasets, as they were, were described, or are."""
    ground = ground_of(record)
    sides = (ground.applied, ground.before, ground.left)
    keys = ground.before.keys() | ground.left.keys()
    return table_keys(side[key] for side in sides for key in keys if side.get(key) is not None)
