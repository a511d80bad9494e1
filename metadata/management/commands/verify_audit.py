"""Prove that change log, approvals and records are as they were written."""

import json
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from elevata.cli import FAILED, INVALID, CommandExit, ProductCommand
from metadata.domain.audit_files import FORMAT
from metadata.domain.chain import Head, parse_head
from metadata.domain.errors import MetadataError
from metadata.services.chain import verify
from metadata.services.export_files import wrong_exports


class Command(ProductCommand):
    help = (
        "Walk the hash chain over change log, approvals and execution records, and check every row it stands "
        "for. Entries that retention removed are accounted for by their segment; --exports looks at their files, "
        "too. Ends with 0 if it is intact, 1 if it is broken, naming the first bad row, 4 on invalid input."
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
        found = verify(against=_head_in(against) if against else None, since=_head_in(since) if since else Head())
        if found.intact and exports is not None:
            found = replace(found, problem=wrong_exports(exports))
        self.print_json(found.as_json())
        waiting = f", {found.unsealed} rows not sealed yet" if found.unsealed else ""
        if found.problem is not None:
            said = f"broken after {found.links} links: {found.problem.message}{waiting}"
            raise CommandExit(FAILED, said, found.problem.code)
        files = "" if exports else ", whose files were not looked at (--exports)"
        removed = f", {found.segments} removed segments{files}" if found.segments else ""
        self.say(f"intact: {found.links} links, head {found.head.hash}{waiting}{removed}")


def _head_in(path: Path) -> Head:
    try:
        with path.open(encoding="utf-8") as file:
            return parse_head(_document(file))
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=str(path)) from None
    except ValueError as error:
        raise MetadataError("invalid", f"is no JSON document: {error}", place=str(path)) from None
    except MetadataError as problem:
        raise problem.about(place=str(path)) from None


def _document(file: TextIO) -> Any:
    """The file as one JSON document; or the first of an export's lines, which carries the head."""
    first = file.readline()
    if f'"{FORMAT}"' in first:
        return json.loads(first)
    return json.loads(first + file.read())
