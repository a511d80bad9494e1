"""Command that applies history batch files to a dataset's history."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from loader.domain.reference.batch_files import FILES
from loader.management.run_command import MaintenanceCommand, timestamp
from loader.services.maintenance.history_batches import COMPRESSIONS, FORMATS, request_history_batch


class Command(MaintenanceCommand):
    """Command to apply a history batch: earliest-start, upsert, update and delete files, in this order."""

    request = staticmethod(request_history_batch)
    own_options = ("files", "format", "compression", "at")
    help = (
        "Apply history batch files to the history of a dataset whose policy has the input batch_files. The files are "
        "applied in the order earliest start, upsert, update, delete, all of them or none."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", metavar="S.D", help="dataset of the history")
        for kind in FILES:
            option = f"--{kind.replace('_', '-')}"
            parser.add_argument(option, nargs="+", default=[], metavar="F", help="files, folders or patterns")
        parser.add_argument("--format", choices=FORMATS, default="csv", help="default: csv")
        parser.add_argument("--compression", choices=COMPRESSIONS, help="default: zstd if all files end in .zst")
        parser.add_argument("--at", type=timestamp, metavar="TIMESTAMP", help="time of the run; default: now")
        self.common_arguments(parser, default="")

    def run(self, **options: Any) -> None:
        files = {kind: [_absolute(path) for path in options[kind]] for kind in FILES}
        packed = all(path.endswith((".zst", ".zstd")) for paths in files.values() for path in paths)
        compression = options["compression"] or ("zstd" if packed and any(files.values()) else "none")
        super().run(**options | {"files": files, "compression": compression})


def _absolute(path: str) -> str:
    """Return a path relative to the working directory as absolute; return a URI unchanged."""
    return path if ":" in path.split("/")[0] or path.startswith("{{") else str(Path.cwd() / path)
