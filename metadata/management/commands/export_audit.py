"""Command that exports the change log to a verifiable file."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from elevata.audit.selectors import entries
from elevata.audit.services.export_files import read_export, write_whole
from elevata.audit.services.exports import export_segment, selection
from metadata.filtersets import ChangeFilter

_FILTERS = {
    "since": "entries of this day or later",
    "until": "entries of this day or earlier",
    "actor": "name of the user who made the change",
    "kind": "what kind of thing was changed: dataset, column, user, …",
    "dataset": "the dataset it belongs to, schema.name, by any name it had",
    "q": "text in names, reasons, and values before and after",
}


class Command(ProductCommand):
    help = (
        "Export the change log as JSON lines, each entry with its link in the hash chain; verify_export proves the "
        "file without a database. With --segment: every link that retention may remove next (prune_audit), with "
        "approvals and records among them."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", type=Path, help="the file to write; it must not be there yet")
        for name, text in _FILTERS.items():
            parser.add_argument(f"--{name}", metavar="TEXT" if name != "since" else "DATE", help=text)
        parser.add_argument("--segment", action="store_true", help="export a whole segment, for prune_audit")
        parser.add_argument("--before", metavar="DATE", help="with --segment: what was sealed before (default: now)")

    def run(self, *, path: Path, segment: bool, before: str | None, **options: Any) -> None:
        chosen = {name: options[name] for name in _FILTERS if options[name]}
        if segment:
            if chosen:
                raise CommandExit(INVALID, f"--segment is whole: --{min(chosen)} does not go with it", "usage")
            export = export_segment(path, before=_moment(before))
        elif before:
            raise CommandExit(INVALID, "--before goes with --segment; otherwise give --until", "usage")
        else:
            export = self._selection(path, chosen)
        rows = sum(export.rows.values()) + export.unlinked
        place = path.resolve()
        self.say(f"{rows} rows, links up to {export.chain.sequence}, head {export.chain.hash}: {place}")
        if segment:
            self.say(
                f"links {export.first} to {export.last}; keep the file, then: manage.py prune_audit {path} --reason …"
            )
        self.print_json({"path": str(place), **export.as_json()})

    def _selection(self, path: Path, chosen: dict[str, str]) -> Any:
        wanted = ChangeFilter(chosen, queryset=entries())
        if not wanted.is_valid():
            field, messages = next(iter(wanted.errors.items()))
            raise CommandExit(INVALID, f"--{field}: {' '.join(messages)}", "invalid")
        write_whole(path, selection(wanted.qs, chosen))
        return read_export(path)


def _moment(text: str | None) -> datetime:
    """Return a time, or the beginning of a day; in UTC unless it has a zone."""
    if text is None:
        return datetime.now(UTC)
    try:
        moment = parse_datetime(text) or parse_date(text)
    except ValueError:
        moment = None
    if moment is None:
        raise CommandExit(INVALID, f"--before must be a day or a moment like 2026-01-31, not {text!r}", "invalid")
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
