"""Command that replaces the control database by a copy."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, CommandExit, ProductCommand
from elevata.audit.services.verification import verify_chain
from elevata.ops.backups import restore


class Command(ProductCommand):
    help = (
        "Replace the control database by a copy of the command backup: all later writes are lost. Stop all processes "
        "of the product first. The database is migrated to this release, and the audit chain is verified and compared "
        "with the copy's manifest. A signed statement with the recorded heads names the copy. Ends with 0 if the chain "
        "is intact, 1 if not."
    )
    refused_exit = FAILED
    # No token can be checked, because the database may not exist.
    takes_user = False
    requires_migrations_checks = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="the copy, with its manifest PATH.json")
        parser.add_argument(
            "--force", action="store_true", help="restore even if a worker is alive or the manifest is missing"
        )

    def run(self, *, path: Path, force: bool, **_: Any) -> None:
        backup = restore(path.absolute(), force=force)
        verification = verify_chain(against=backup.head)
        self.print_json({"path": str(backup.path), "made_at": backup.made_at, "audit": verification.as_json()})
        if verification.problem is not None:
            raise CommandExit(
                FAILED, f"restored, but the chain is broken: {verification.problem.message}", verification.problem.code
            )
        self.say(f"restored as of {backup.made_at or 'an unknown time'}; the chain holds: {verification.links} links")
