"""Command that runs history cases on Spark in a temporary folder, or through rendered SQL on a database."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from loader.contract.manifest.reads import ReplayManifest
from loader.domain.reference.cases import Case, CaseProblem, parse_cases, select
from loader.management.temporary_runner import run_cases, temporary_runner
from loader.services.sql_replay import DUCKDB, POSTGRES, connected, replay_sql

DIFFERENT_EXIT = 1
SPARK = "spark"
ENGINES = (SPARK, DUCKDB, POSTGRES)


class Command(ProductCommand):
    """Command to apply the batches of each case to an empty history, and compare the result with the expected table."""

    help = (
        "Run history cases on Spark and Delta, or through rendered SQL on DuckDB or PostgreSQL, and compare the "
        "results. Ends with 0 if all are as expected, 1 if some differ, 4 if the file cannot be read. Cases that are "
        "not rendered as SQL count neither as passed nor as failed."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="cases as JSON (shared/contracts: history_cases.json)")
        parser.add_argument("--only", nargs="+", metavar="ID", help="run these cases only")
        parser.add_argument("--engine", choices=ENGINES, default=SPARK, help="default: spark")
        parser.add_argument("--url", help="with --engine postgres: a database; default: a server of its own")

    def run(self, **options: Any) -> None:
        path = Path(options["file"])
        text, cases = self._read(path, options["only"])
        engine, url = options["engine"], options["url"]
        if url and engine != POSTGRES:
            raise CommandExit(INVALID, "--url goes with --engine postgres", "usage")
        if not cases:
            outcomes = {}
        elif engine == SPARK:
            outcomes = self._replay(text, cases)
        else:
            outcomes = self._replay_sql(cases, engine, url)
        self.print_json([outcomes[case.id] for case in cases])
        failed = [case.id for case in cases if outcomes[case.id]["passed"] is False]
        if failed:
            raise CommandExit(DIFFERENT_EXIT, f"{len(failed)} of {len(cases)} cases differ: {', '.join(failed)}")
        left_out = sum(outcome["passed"] is None for outcome in outcomes.values())
        not_rendered = f", {left_out} not rendered" if left_out else ""
        self.say(f"{len(cases) - left_out} cases, all as expected{not_rendered}")

    @staticmethod
    def _read(path: Path, only: list[str] | None) -> tuple[str, list[Case]]:
        try:
            text = path.read_text(encoding="utf-8")
            return text, select(parse_cases(text), only)
        except (OSError, UnicodeDecodeError, CaseProblem) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandExit(INVALID, f"{path}: {reason}", "unreadable") from None

    def _replay(self, text: str, cases: list[Case]) -> dict[str, dict]:
        """Return the runner's outcomes by case id."""
        outcomes: dict[str, dict] = {}

        def tell(outcome: dict) -> None:
            outcomes[outcome["id"]] = outcome
            self._tell(outcome)

        with temporary_runner("replay") as runner:
            run_cases(runner, "replay", ReplayManifest(text, tuple(case.id for case in cases)), tell)
        return outcomes

    def _replay_sql(self, cases: list[Case], engine: str, url: str | None) -> dict[str, dict]:
        """Return the outcomes of rendered SQL by case id."""
        with connected(engine, url) as connection:
            outcomes = replay_sql(cases, engine, connection, lambda outcome: self._tell(outcome.as_json()))
        return {outcome.id: outcome.as_json() for outcome in outcomes}

    def _tell(self, outcome: dict) -> None:
        words = {True: "ok     ", False: "differs", None: "left   "}
        self.say(f"{words[outcome['passed']]} {outcome['id']} {outcome['message']}".rstrip())
