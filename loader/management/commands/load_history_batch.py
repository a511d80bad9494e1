"""Application of history batch files to a dataset's history."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from loader.domain.reference.batch_files import FILES
from loader.management.run_command import GovernedCommand, timestamp
from loader.services.maintenance.maintenance import COMPRESSIONS, FORMATS, request_history_batch


class Command(GovernedCommand):
    """Command for one history batch: earliest-start, upsert, update and delete files, applied in this order."""

    help = (
        "Take history batch files into the history of a dataset whose policy says input batch_files. "
        "The files are applied as earliest start, upsert, update, delete, all of them or none."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="S.D", help="the dataset whose history they are for")
        for kind in FILES:
            option = f"--{kind.replace('_', '-')}"
            parser.add_argument(option, nargs="+", default=[], metavar="F", help="files, folders or patterns")
        parser.add_argument("--format", choices=FORMATS, default="csv", help="default: csv")
        parser.add_argument("--compression", choices=COMPRESSIONS, help="default: zstd if every file ends in .zst")
        parser.add_argument("--run-id", metavar="ID", help="name the run, or repeat the run of that name")
        parser.add_argument("--at", type=timestamp, metavar="TIMESTAMP", help="what the run is dated; default: now")
        parser.add_argument("--reason", default="", help="why; it stays with the run")
        self.local_argument(parser)

    def run(self, **options: Any) -> None:
        files = {kind: [_absolute(path) for path in options[kind]] for kind in FILES}
        packed = all(path.endswith((".zst", ".zstd")) for paths in files.values() for path in paths)
        request = partial(
            request_history_batch,
            dataset=options["dataset"],
            files=files,
            format=options["format"],
            compression=options["compression"] or ("zstd" if packed and any(files.values()) else "none"),
            run_id=options["run_id"],
            at=options["at"],
            reason=options["reason"],
        )
        self.perform(request, local=options["local"])


def _absolute(path: str) -> str:
    """Return a path as absolute, below the folder the command is called in; a URI stays as it is."""
    return path if ":" in path.split("/")[0] or path.startswith("{{") else str(Path.cwd() / path)
