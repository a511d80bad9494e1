"""Command that writes the warehouse as SQL files that run without this product."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from loader.dialects.catalog import DIALECTS
from loader.dialects.warehouse import MANIFEST, differences
from metadata.management.scope_options import add_scope_options, scope_of_options

DIFFERENT_EXIT = 1


class Command(ProductCommand):
    help = (
        "Write tables and loads as files in an SQL dialect, with a manifest (sql/v1). Ends with 0, 1 if --check finds "
        "other files, 4 on invalid input."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dialect", choices=sorted(DIALECTS), required=True)
        which = add_scope_options(parser, selects_inputs=False)
        which.add_argument("--report", metavar="ID", help="all datasets, and the statements of a change report")
        parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="written is FOLDER/<dialect>")
        parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if the files differ")

    def run(self, *, dialect: str, out: Path, check: bool, **options: Any) -> None:
        from architecture.selectors.reports import report_named
        from loader.services.plain_sql import read_files, render_sql, write_files

        if options["report"] and options["exclude"]:
            raise CommandExit(INVALID, "--exclude does not go with --report, which writes all datasets", "usage")
        report = report_named(options["report"]) if options["report"] else None
        files, folder = render_sql(dialect, scope_of_options(options), report), out / dialect
        different = differences(files, read_files(folder))
        try:
            if not check:
                write_files(folder, files)
        except OSError as problem:
            raise CommandExit(FAILED, f"{problem.filename or folder}: {problem.strerror}") from None
        self.print_json({"dialect": dialect, "folder": str(folder), "files": sorted(files), "different": different})
        if check and different:
            raise CommandExit(DIFFERENT_EXIT, f"{len(different)} files differ: {', '.join(different)}", "different")
        self.say(f"{len(files)} files {'are up to date' if check else 'written'}; see {folder / MANIFEST}")
