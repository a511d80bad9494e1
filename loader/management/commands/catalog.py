"""Command that prints the catalog."""

from argparse import ArgumentParser
from typing import Any

from architecture.services.environments import current_environment
from elevata.accounts.cli import ProductCommand, json_text
from loader.domain.catalogs.statements import DUCKDB, SPARK, render
from loader.services.publication import published

JSON = "json"


class Command(ProductCommand):
    """Command to print all published tables and views, for programs, DuckDB or Spark."""

    help = (
        "Print every published name: tables with the address of their Delta table, views with their query. "
        "duckdb and spark print the statements that define them all in that engine."
    )
    with_json = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", choices=(JSON, DUCKDB, SPARK), default=JSON, help="default: json")

    def run(self, *, format: str, **options: Any) -> None:
        entries = published(environment=current_environment())
        if format == JSON:
            self.stdout.write(json_text([entry.as_json() for entry in entries], self.stdout))
            return
        self.stdout.write(render(entries, format), ending="")
