"""Command that writes the metadata as YAML files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from elevata.accounts.cli import INVALID, ProductCommand
from metadata.services.exchange.metadata_files import export_metadata


class Command(ProductCommand):
    help = (
        "Export all metadata as YAML files; importing them elsewhere gives the same metadata. Files of an "
        "earlier export whose object is gone are removed, other files are left alone."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "path",
            metavar="PATH",
            type=Path,
            nargs="?",
            help="folder to write (default: metadata/ in the data folder)",
        )

        parser.add_argument(
            "--csv", action="store_true", help="write datasets.csv and sources.csv for spreadsheets instead"
        )

    def run(self, *, path: Path | None, csv: bool, **options: Any) -> None:
        folder = path or Path(settings.DATA_DIR) / "metadata"
        report = export_metadata(folder, as_csv=csv)
        for name in report.removed:
            self.say(f"removed {name}")
        self.say(f"{len(report.written)} files written to {folder}")
        self.print_json({"path": str(folder), "written": report.written, "removed": report.removed})
