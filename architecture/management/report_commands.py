"""Shared code of report commands: arguments, decisions, artifacts, state files."""

import json
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from architecture.domain.artifacts import Finding
from architecture.domain.dialect_statements import RENDERER
from architecture.domain.states.state_files import ArchitectureState, parse_state
from architecture.models import Approval, ChangeReport
from architecture.selectors.reports import report_named
from architecture.services.approvals import approvals_missing
from architecture.services.execution_records import approval_artifact
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, REFUSED, CommandExit, ProductCommand
from elevata.core.words import counted

REFUSED_EXIT = REFUSED


def report_argument(parser: ArgumentParser) -> None:
    parser.add_argument("report", metavar="REPORT", help="its id, or the first 8 or more digits of its fingerprint")


def raise_unverified(findings: list[Finding]) -> None:
    """Raise CommandExit if records do not verify; ``findings`` are the first errors of these records."""
    if findings:
        first, count = findings[0], counted(len(findings), "record does", "records do")
        raise CommandExit(FAILED, f"{count} not verify: {first.where}: {first.message}", first.code)


def write_artifact(path: Path, artifact: dict[str, Any]) -> None:
    """Write an artifact to the given path. Raise CommandExit if that fails."""
    try:
        path.write_text(json.dumps(artifact, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as problem:
        raise CommandExit(FAILED, f"{path}: {problem.strerror}", "unwritable") from None


class DecidingCommand(ProductCommand):
    """Base class of approve and reject, for the owner of ELEVATA_TOKEN. The exit code is 0, or 2 if refused."""

    refused_exit = REFUSED_EXIT
    # Options by which the user accepts consequences of the report.
    acceptable: ClassVar[tuple[str, ...]] = ()

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument("--note", default="", metavar="TEXT", help="reason, stored with the decision")
        parser.add_argument("--artifact", type=Path, metavar="FILE", help="write the proof of it to this file")

    def decide(self, *, report: ChangeReport, user: Any, note: str, **accepted: bool) -> Approval:
        raise NotImplementedError

    def run(self, *, report: str, note: str, artifact: Path | None, **options: Any) -> None:
        row = report_named(report)
        accepted = {name: True for name in self.acceptable if options[name]}
        decision = self.decide(report=row, user=current_actor().user, note=note, **accepted)
        if artifact is not None:
            write_artifact(artifact, approval_artifact(row))
        missing = approvals_missing(row)
        self.print_json(
            {
                "report": str(row.report_id),
                "fingerprint": row.fingerprint,
                "status": row.status,
                "decision": decision.decision,
                "person": decision.person_name,
                "approvals_missing": missing,
            }
        )
        more = f", {counted(missing, 'more approval')} needed" if missing else ""
        self.say(f"{decision.get_decision_display().lower()} by {decision.person_name}: report is {row.status}{more}")


def read_state(path: Path, dialect: str | None = None) -> ArchitectureState:
    """Return the state in a file; its types may be those of a dialect.

    Raise CommandExit if it cannot be read, StateProblem if it is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "is not UTF-8 text"
        raise CommandExit(INVALID, f"{path}: {reason}", "unreadable") from None
    return parse_state(text, str(path), partial(RENDERER.get().type_of, dialect=dialect) if dialect else None)
