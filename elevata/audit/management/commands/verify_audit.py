"""Command that verifies change log, approvals and records."""

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.audit.domain import Head
from elevata.audit.services.chain import verify
from elevata.audit.services.export_files import head_in, wrong_exports, wrong_files


class Command(ProductCommand):
    help = (
        "Walk the hash chain over change log, approvals and execution records: every link, its signature, and the "
        "row it stands for; notes that wait to be sealed; triggers; and heads recorded outside the database. Heads "
        "and files of removed segments in the audit folder are compared, too; --exports asks that every one is there. "
        "Ends with 0 if it is intact, 1 if it is broken, naming the first bad row, 4 on invalid input."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--against",
            metavar="ARTIFACT",
            type=Path,
            help="an exported file that carries the chain's head: it must be one of the links",
        )
        parser.add_argument(
            "--since",
            metavar="ARTIFACT",
            type=Path,
            help="walk only what came after the head that this file carries; what is before is taken as proven",
        )
        parser.add_argument(
            "--exports",
            metavar="FOLDER",
            type=Path,
            help="where the files of removed segments are: each must be there, as it was",
        )

    def run(self, *, against: Path | None, since: Path | None, exports: Path | None, **options: Any) -> None:
        if exports is not None and not exports.is_dir():
            raise CommandExit(INVALID, f"{exports}: is no folder", "unreadable")
        found = verify(against=head_in(against) if against else None, since=head_in(since) if since else Head())
        if found.intact:
            problem = wrong_exports(exports) if exports is not None else wrong_files(found.restores)
            found = replace(found, problem=problem)
        self.print_json(found.as_json())
        waiting = f", {found.unsealed} rows not sealed yet" if found.unsealed else ""
        if found.problem is not None:
            message = f"broken after {found.links} links: {found.problem.message}{waiting}"
            raise CommandExit(FAILED, message, found.problem.code)
        files = "" if exports else ", whose files need not be there (--exports)"
        removed = f", {found.segments} removed segments{files}" if found.segments else ""
        behind = f", {found.unrecorded} links not recorded outside the database" if found.unrecorded else ""
        self.say(f"intact: {found.links} links, head {found.head.hash}{waiting}{behind}{removed}")
        for restore in found.restores:
            self.say(
                f"restored at {restore.at}: from link {restore.before.sequence} to {restore.after.sequence}, "
                f"{restore.reason}"
            )
