"""Command that accepts the audit chain in its current state."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import FAILED, CommandExit, ProductCommand
from elevata.audit.services.verification import verify_chain
from elevata.ops.backups import record_restore


class Command(ProductCommand):
    help = (
        "Record that the audit chain in its current state is the right one: after a restore by PostgreSQL's own "
        "programs, or if the file of recorded heads was lost. The signed statement is stored with the recorded heads "
        "and in the change log, and verify_audit shows it. Ends with 0 if it is recorded, 1 if the chain is broken."
    )
    refused_exit = FAILED

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reason", required=True, metavar="TEXT", help="reason, stored with the statement")

    def run(self, *, reason: str, **_: Any) -> None:
        if not reason.strip():
            raise CommandExit(FAILED, "say why the chain is the right one (--reason)", "invalid")
        verification = verify_chain(recorded=False)
        if verification.problem is not None:
            raise CommandExit(FAILED, f"the chain is broken: {verification.problem.message}", verification.problem.code)
        restore = record_restore(reason=reason.strip())
        self.print_json(restore.as_json())
        before, after = restore.before.sequence, restore.after.sequence
        self.say(f"accepted: the chain ends at link {after}; until now link {before} was recorded")
