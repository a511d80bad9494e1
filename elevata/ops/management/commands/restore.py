"""Command that replaces the control database by a copy."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, CommandExit, ProductCommand
from elevata.audit.services.chain import verify
from elevata.ops.backups import restore


class Command(ProductCommand):
    help = (
        "Put a copy that backup made in the place of the control database: everything written since is lost. Stop all "
        "processes of the product first. The database is migrated to this release, and the audit chain is proven, "
        "up to where the copy's note says it ended and beyond. A signed statement beside the recorded heads says what "
        "was put back. Ends with 0 if it holds, 1 if not."
    )
    refused_exit = FAILED
    # There may be no database yet, so no token can be checked.
    takes_user = False
    requires_migrations_checks = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="the copy; its note is beside it")
        parser.add_argument("--force", action="store_true", help="although a worker is alive or the note is missing")

    def run(self, *, path: Path, force: bool, **_: Any) -> None:
        backup = restore(path.absolute(), force=force)
        found = verify(against=backup.head)
        self.print_json({"path": str(backup.path), "made_at": backup.made_at, "audit": found.as_json()})
        if found.problem is not None:
            raise CommandExit(FAILED, f"restored, but the chain is broken: {found.problem.message}", found.problem.code)
        self.say(f"restored as of {backup.made_at or 'an unknown time'}; the chain holds: {found.links} links")
