"""Prove that change log, approvals and records are as they were written."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.cli import FAILED, INVALID, CommandExit, ProductCommand
from metadata.domain.chain import Head, parse_head
from metadata.domain.errors import MetadataError
from metadata.services.chain import verify


class Command(ProductCommand):
    help = (
        "Walk the hash chain over change log, approvals and execution records, and check every row it stands "
        "for. Ends with 0 if it is intact, 1 if it is broken, naming the first bad row, 4 on invalid input."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--against",
            metavar="ARTIFACT",
            type=Path,
            help="an exported JSON file that carries the chain's head: it must be one of the links",
        )

    def run(self, *, against: Path | None, **options: Any) -> None:
        found = verify(against=_head_in(against) if against else None)
        self.print_json(found.as_json())
        waiting = f", {found.unsealed} rows not sealed yet" if found.unsealed else ""
        if found.problem is not None:
            said = f"broken after {found.links} links: {found.problem.message}{waiting}"
            raise CommandExit(FAILED, said, found.problem.code)
        self.say(f"intact: {found.links} links, head {found.head.hash}{waiting}")


def _head_in(path: Path) -> Head:
    try:
        return parse_head(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=str(path)) from None
    except ValueError as error:
        raise MetadataError("invalid", f"is no JSON document: {error}", place=str(path)) from None
    except MetadataError as problem:
        raise problem.about(place=str(path)) from None
