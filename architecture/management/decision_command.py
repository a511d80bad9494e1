"""Shared code of the commands approve and reject."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.models import Approval, ChangeReport
from architecture.selectors import report_named
from architecture.services.executions.records import approval_artifact
from architecture.services.reports.approvals import approvals_missing
from elevata.core.cli import FAILED, REFUSED, CommandExit, ProductCommand
from metadata.services.actor import current_actor

REFUSED_EXIT = REFUSED


def report_argument(parser: ArgumentParser) -> None:
    parser.add_argument("report", metavar="REPORT", help="its id, or the first 8 or more digits of its fingerprint")


def write_artifact(path: Path, artifact: dict[str, Any]) -> None:
    """Write an artifact where it was asked for; CommandExit if that cannot be done."""
    try:
        path.write_text(json.dumps(artifact, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as problem:
        raise CommandExit(FAILED, f"{path}: {problem.strerror}", "unwritable") from None


class DecidingCommand(ProductCommand):
    """A yes or no of the person whose token is in ELEVATA_TOKEN. Ends with 0 done, 2 refused."""

    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument("--note", default="", metavar="TEXT", help="why; it stays with the decision")
        parser.add_argument("--artifact", type=Path, metavar="FILE", help="write the proof of it to this file")

    def decide(self, *, report: ChangeReport, person: Any, note: str) -> Approval:
        raise NotImplementedError

    def run(self, *, report: str, note: str, artifact: Path | None, **_: Any) -> None:
        found = report_named(report)
        decision = self.decide(report=found, person=current_actor().user, note=note)
        if artifact is not None:
            write_artifact(artifact, approval_artifact(found))
        missing = approvals_missing(found)
        self.print_json(
            {
                "report": str(found.report_id),
                "fingerprint": found.fingerprint,
                "status": found.status,
                "decision": decision.decision,
                "person": decision.person_name,
                "approvals_missing": missing,
            }
        )
        more = f", {missing} more {'approval' if missing == 1 else 'approvals'} needed" if missing else ""
        self.say(f"{decision.get_decision_display().lower()} by {decision.person_name}: report is {found.status}{more}")
