"""Command that runs history cases on the Spark engine, in a temporary folder."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from loader.contract.manifest.reads import ReplayManifest
from loader.domain.reference.cases import Case, CaseProblem, parse_cases, select
from loader.management.temporary_runner import run_cases, temporary_runner

DIFFERENT_EXIT = 1


class Command(ProductCommand):
    """Command to apply the batches of each case to an empty history, and compare the result with the expected table."""

    help = (
        "Run history cases on Spark and Delta and compare the results. Ends with 0 if all are as expected, 1 if some "
        "differ, 4 if the file cannot be read."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="cases as JSON (shared/contracts: history_cases.json)")
        parser.add_argument("--only", nargs="+", metavar="ID", help="run these cases only")

    def run(self, **options: Any) -> None:
        path = Path(options["file"])
        text, cases = self._read(path, options["only"])
        outcomes = self._replay(text, cases) if cases else {}
        self.print_json([outcomes[case.id] for case in cases])
        failed = [case.id for case in cases if not outcomes[case.id]["passed"]]
        if failed:
            raise CommandExit(DIFFERENT_EXIT, f"{len(failed)} of {len(cases)} cases differ: {', '.join(failed)}")
        self.say(f"{len(cases)} cases, all as expected")

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
            self.say(f"{'ok     ' if outcome['passed'] else 'differs'} {outcome['id']} {outcome['message']}".rstrip())

        with temporary_runner("replay") as runner:
            run_cases(runner, "replay", ReplayManifest(text, tuple(case.id for case in cases)), tell)
        return outcomes
