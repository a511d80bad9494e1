"""Command that verifies an exported approval or execution record from the file alone."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.domain.artifacts import verify
from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.core import strict_json
from elevata.core.words import counted


class Command(ProductCommand):
    help = (
        "Recompute every digest and fingerprint in an exported artifact from the file alone. Ends with 0 if all "
        "hold, 1 if any does not, 4 if the file is no artifact. verify_audit tells whether its chain is this "
        "installation's."
    )
    refused_exit = INVALID
    takes_user = False
    requires_system_checks = ()

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def run(self, *, file: Path, **_: Any) -> None:
        try:
            artifact = strict_json.loads(file.read_text(encoding="utf-8-sig"))
        except OSError as problem:
            raise CommandExit(INVALID, f"{file}: {problem.strerror}", "unreadable") from None
        except ValueError as problem:
            raise CommandExit(INVALID, f"{file}: is not JSON: {problem}", "invalid") from None
        findings = verify(artifact)
        described = {"format": artifact["format"], "verified": not findings, "chain": artifact["chain"]}
        self.print_json(described | {"findings": [finding.as_json() for finding in findings]})
        if findings:
            first = findings[0]
            number = counted(len(findings), "finding")
            raise CommandExit(FAILED, f"{file}: {first.where}: {first.message} ({number})", first.code)
        self.say(f"{file}: {artifact['format']} holds; it was exported at link {artifact['chain']['sequence']}")
