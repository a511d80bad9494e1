"""Command that lists, verifies and exports execution records."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.domain.artifacts import Finding, verify
from architecture.management.report_commands import raise_unverified, write_artifact
from architecture.models import ExecutionRecord
from architecture.selectors.environments import environment_named
from architecture.selectors.executions import record_named, records
from architecture.services.execution_records import record_artifact
from architecture.services.undo_options import offered
from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from elevata.core.words import counted


class Command(ProductCommand):
    help = (
        "List execution records, newest first, and verify each; or print one, and write it to a file that "
        "verify_artifact reads. Exit code: 0, 1 if a record does not verify, 4 for an unknown record."
    )
    refused_exit = INVALID
    takes_user = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("record", nargs="?", metavar="RECORD", help="id of the record to print (default: list all)")
        parser.add_argument("--environment", metavar="E", help="list only records of this environment")
        parser.add_argument("--artifact", type=Path, metavar="FILE", help="write the record to this file")

    def run(self, *, record: str | None, environment: str | None, artifact: Path | None, **_: Any) -> None:
        if artifact is not None and record is None:
            raise CommandExit(INVALID, "--artifact goes with a record", "usage")
        rows = records(environment=environment_named(environment) if environment else None)
        if record is not None:
            self._verify(record_named(record), artifact)
            return
        listed = [(row, verify(record_artifact(row))) for row in rows]
        self.print_json({"records": [_described(row, findings) for row, findings in listed]})
        if not self._as_json:
            for row, findings in listed:
                self.say(f"{row.record_id}  {_line(row)}{'  DOES NOT VERIFY' if findings else ''}")
        raise_unverified([findings[0] for _, findings in listed if findings])

    def _verify(self, row: ExecutionRecord, artifact: Path | None) -> None:
        exported = record_artifact(row)
        findings = verify(exported)
        if artifact is not None:
            write_artifact(artifact, exported)
        self.print_json(exported if not findings else {"record": _described(row, findings)})
        if not self._as_json:
            self.say(_line(row))
            for operation in row.document["operations"]:
                words = (operation[name] for name in ("status", "op", "dataset", "column"))
                self.say("  {}  {}  {} {} {}".format(operation["ordinal"] + 1, *words).rstrip())
            self._print_undo(row)
        raise_unverified([*findings[:1]])

    def _print_undo(self, row: ExecutionRecord) -> None:
        """Print how each operation can be undone, with the numbers that 'manage.py undo' takes."""
        for offer in offered(row):
            numbers = " ".join(str(ordinal + 1) for ordinal in offer.ordinals)
            back = (
                offer.refused.one_line()
                if offer.refused is not None
                else ", ".join(offer.undo_steps) or "no table changes"
            )
            self.say(f"  undo  {numbers}: {f'{offer.refused.code}: ' if offer.refused is not None else ''}{back}")


def _line(row: ExecutionRecord) -> str:
    document = row.document
    who, count = document["requested_by"], len(document["operations"])
    fingerprint = (document["report"] or {}).get("fingerprint", "")[:12]
    return (
        f"{row.created_at:%Y-%m-%d %H:%M:%S}  {row.environment}  {row.outcome}  "
        f"{counted(count, 'step')} by {who}  report {fingerprint or 'none'}"
    )


def _described(row: ExecutionRecord, findings: tuple[Finding, ...]) -> dict[str, Any]:
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
        "approved_by": [approval["person"] for approval in document["approvals"] if approval["decision"] == "approve"],
        "operations": len(document["operations"]),
        "digest": row.digest,
        "findings": [finding.as_json() for finding in findings],
    }
