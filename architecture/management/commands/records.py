"""Execution records: what was done, and whether it stands as it was sealed."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.domain.reports.artifacts import verify
from architecture.management.decision_command import write_artifact
from architecture.models import ExecutionRecord
from architecture.selectors import environment_named, record_named, records
from architecture.services.executions.records import record_artifact
from architecture.services.reports.undo_options import offered
from elevata.core.cli import FAILED, INVALID, CommandExit, ProductCommand


class Command(ProductCommand):
    help = (
        "List execution records, newest first, and check that each stands as it was sealed; or show one and write "
        "it to a file that verify_artifact takes. Ends with 0, 1 if a record does not verify, 4 for an unknown one."
    )
    refused_exit = INVALID
    takes_person = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("record", nargs="?", metavar="RECORD", help="a record's id; without it, all are listed")
        parser.add_argument("--environment", metavar="E", help="those of one environment")
        parser.add_argument("--artifact", type=Path, metavar="FILE", help="write the record to this file")

    def run(self, *, record: str | None, environment: str | None, artifact: Path | None, **_: Any) -> None:
        if artifact is not None and record is None:
            raise CommandExit(INVALID, "--artifact goes with a record", "usage")
        found = records(environment=environment_named(environment) if environment else None)
        if record is not None:
            self._one(record_named(record), artifact)
            return
        listed = [(row, [one.as_json() for one in verify(record_artifact(row))]) for row in found]
        self.print_json({"records": [_described(row, findings) for row, findings in listed]})
        if not self._as_json:
            for row, findings in listed:
                self.say(f"{row.record_id}  {_line(row)}{'  DOES NOT VERIFY' if findings else ''}")
        self._finish([findings for _, findings in listed if findings])

    def _one(self, row: ExecutionRecord, artifact: Path | None) -> None:
        exported = record_artifact(row)
        findings = [one.as_json() for one in verify(exported)]
        if artifact is not None:
            write_artifact(artifact, exported)
        self.print_json(exported if not findings else {"record": _described(row, findings)})
        if not self._as_json:
            self.say(_line(row))
            for one in row.document["operations"]:
                self.say(f"  {one['ordinal']}  {one['status']}  {one['op']} {one['dataset']} {one['column']}".rstrip())
            self._ways_back(row)
        self._finish([findings] if findings else [])

    def _ways_back(self, row: ExecutionRecord) -> None:
        """Print how each operation can be undone, with the numbers that 'manage.py undo' takes."""
        for one in offered(row):
            numbers = " ".join(str(ordinal) for ordinal in one.ordinals)
            back = one.refused.one_line() if one.refused is not None else ", ".join(one.back) or "no table changes"
            self.say(f"  back  {numbers}: {f'{one.refused.code}: ' if one.refused is not None else ''}{back}")

    def _finish(self, failed: list) -> None:
        if failed:
            first = failed[0][0]
            count = f"{len(failed)} {'record does' if len(failed) == 1 else 'records do'} not verify"
            raise CommandExit(FAILED, f"{count}: {first['where']}: {first['message']}", first["code"])


def _line(row: ExecutionRecord) -> str:
    document = row.document
    who, count = document["requested_by"], len(document["operations"])
    fingerprint = (document["report"] or {}).get("fingerprint", "")[:12]
    return (
        f"{row.created_at:%Y-%m-%d %H:%M:%S}  {row.environment}  {row.outcome}  "
        f"{count} {'step' if count == 1 else 'steps'} by {who}  report {fingerprint or 'none'}"
    )


def _described(row: ExecutionRecord, findings: list[dict]) -> dict[str, Any]:
    document = row.document
    return {
        "record": str(row.record_id),
        "environment": row.environment.name,
        "outcome": row.outcome,
        "at": row.created_at.isoformat(),
        "requested_by": document["requested_by"],
        "scope": document["scope"],
        "report_fingerprint": (document["report"] or {}).get("fingerprint"),
        "preview_fingerprint": (document["preview"] or {}).get("fingerprint"),
        "approved_by": [one["person"] for one in document["approvals"] if one["decision"] == "approve"],
        "operations": len(document["operations"]),
        "digest": row.digest,
        "findings": findings,
    }
