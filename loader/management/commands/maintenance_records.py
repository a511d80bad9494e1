"""Command that lists, verifies and exports the records of maintenance runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.domain.artifacts import verify
from architecture.management.report_commands import raise_unverified, write_artifact
from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from loader.models import MaintenanceRecord
from loader.services.maintenance.records import record_artifact


class Command(ProductCommand):
    help = (
        "List the sealed records of maintenance runs, newest first, and verify each; or those of one run, and write "
        "its newest to a file that verify_artifact reads. Ends with 0, 1 if a record does not verify, 4 for an "
        "unknown run."
    )
    refused_exit = INVALID
    takes_user = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", nargs="?", metavar="RUN_ID", help="records of this run only")
        parser.add_argument("--artifact", type=Path, metavar="FILE", help="write the run's newest record to this file")

    def run(self, *, run: str | None, artifact: Path | None, **_: Any) -> None:
        if artifact is not None and run is None:
            raise CommandExit(INVALID, "--artifact goes with a run", "usage")
        records = MaintenanceRecord.objects.select_related("run").order_by("-pk")
        rows = list(records.filter(run__run_id=run) if run else records)
        if run and not rows:
            raise CommandExit(INVALID, f"there is no record of a run {run}", "UNKNOWN_RUN")
        exported = [record_artifact(row) for row in rows]
        findings = [verify(document) for document in exported]
        if artifact is not None:
            write_artifact(artifact, exported[0])
        self.print_json(
            {
                "records": [
                    document | {"findings": [finding.as_json() for finding in problems]}
                    for document, problems in zip(exported, findings, strict=True)
                ]
            }
        )
        if not self._as_json:
            for row, problems in zip(rows, findings, strict=True):
                self.say(f"{_line(row)}{'  DOES NOT VERIFY' if problems else ''}")
        raise_unverified([problems[0] for problems in findings if problems])


def _line(row: MaintenanceRecord) -> str:
    content = row.document
    names = ", ".join(dataset["dataset"] for dataset in content["datasets"]) or content["scope"].get("name", "")
    reason = f": {content['reason']}" if content["reason"] else ""
    user = content["repeated_by"] or content["requested_by"]
    subject = f"{content['run']}  {content['kind']} {names}"
    return f"{row.created_at:%Y-%m-%d %H:%M:%S}  {subject}  {row.outcome} by {user}{reason}"
