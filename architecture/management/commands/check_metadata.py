"""Command that examines all metadata."""

from argparse import ArgumentParser
from math import inf
from typing import Any

from architecture.domain.health import Severity
from architecture.selectors.health import as_json, concerns, findings
from architecture.services.health import refresh_findings
from architecture.services.outdated import check_reports
from elevata.accounts.cli import FAILED, CommandExit, ProductCommand

JSON, TEXT = "json", "text"


class Command(ProductCommand):
    help = (
        "Examine all metadata and store the findings, which the page Health shows. Ends with 0 without findings of "
        "severity error (with --strict also warning), 1 with some."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", choices=(TEXT, JSON), help="default: text; --json means json")
        parser.add_argument("--strict", action="store_true", help="warnings fail the command, too")

    def run(self, *, strict: bool, format: str | None, **options: Any) -> None:
        self._as_json = self._as_json or format == JSON
        refresh_findings()
        check_reports(seconds=inf)
        rows = as_json(findings(), concerns())
        self.print_json({"findings": rows})
        if not self._as_json:
            for row in rows:
                self.say(f"{row['severity']}: {row['subject']}: {row['text']} ({row['code']})")
        failing = {Severity.ERROR.value} | ({Severity.WARNING.value} if strict else set())
        count = sum(row["severity"] in failing for row in rows)
        if count:
            raise CommandExit(FAILED, f"{count} of {len(rows)} findings fail the check", "UNHEALTHY")
        self.say(f"{len(rows)} findings, none of which fails the check")
