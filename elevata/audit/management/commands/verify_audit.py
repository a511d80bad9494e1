"""Command that verifies change log, approvals and records."""

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.audit.hash_chain import Head
from elevata.audit.services.altered_rows import all_altered_rows
from elevata.audit.services.export_files import head_in, wrong_exports, wrong_files
from elevata.audit.services.verification import verify_chain
from elevata.core.words import counted


class Command(ProductCommand):
    help = (
        "Verify the hash chain of change log, approvals and execution records: every link with its signature and row, "
        "pending records, triggers, and heads recorded outside the database. Files of removed segments in the audit "
        "folder are verified, too; --exports requires all of them. Metadata, schedules, saved queries, webhooks "
        "and service accounts are compared with their seals, and all rows that differ are listed. Ends with 0 if the "
        "chain is intact and every row matches, 1 if the chain is broken, with the first problem, or a row "
        "differs, 4 on invalid input."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--against",
            metavar="ARTIFACT",
            type=Path,
            help="an exported file with a head of the chain, which must be one of the links",
        )
        parser.add_argument(
            "--since",
            metavar="ARTIFACT",
            type=Path,
            help="verify only the links after the head in this file; earlier links count as verified",
        )
        parser.add_argument(
            "--exports",
            metavar="FOLDER",
            type=Path,
            help="folder with the files of all removed segments, unchanged",
        )

    def run(self, *, against: Path | None, since: Path | None, exports: Path | None, **options: Any) -> None:
        if exports is not None and not exports.is_dir():
            raise CommandExit(INVALID, f"{exports}: is no folder", "unreadable")
        verification = verify_chain(
            against=head_in(against) if against else None, since=head_in(since) if since else Head()
        )
        if verification.intact:
            problem = wrong_exports(exports) if exports is not None else wrong_files(verification.restores)
            verification = replace(verification, problem=problem)
        altered = all_altered_rows()
        self.print_json(verification.as_json() | {"altered_rows": [row.as_json() for row in altered]})
        for row in altered:
            self.say(row.describe())
        waiting = f", {verification.unsealed} rows not sealed yet" if verification.unsealed else ""
        if verification.problem is not None:
            message = f"broken after {verification.links} links: {verification.problem.message}{waiting}"
            raise CommandExit(FAILED, message, verification.problem.code)
        if altered:
            advice = "restore them, or have an administrator run adopt_metadata"
            message = f"{counted(len(altered), 'row')} changed outside of the product: {advice}{waiting}"
            raise CommandExit(FAILED, message, "rows_altered")
        files = "" if exports else ", whose files need not be there (--exports)"
        removed = f", {verification.segments} removed segments{files}" if verification.segments else ""
        not_recorded = (
            f", {verification.unrecorded} links not recorded outside the database" if verification.unrecorded else ""
        )
        self.say(f"intact: {verification.links} links, head {verification.head.hash}{waiting}{not_recorded}{removed}")
        for restore in verification.restores:
            self.say(
                f"restored at {restore.at}: from link {restore.before.sequence} to {restore.after.sequence}, "
                f"{restore.reason}"
            )
