"""Command that runs unit tests of models on Spark, without tables."""

from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand, printable
from elevata.core.words import counted
from loader.contract.manifest.codec import from_json
from loader.domain.model_tests import ModelTestOutcome, ModelTests
from loader.management.temporary_runner import run_cases, temporary_runner
from loader.services.model_tests import described_tests, read_tests

DIFFERENT_EXIT = 1


class Command(ProductCommand):
    """Command to run the SELECT of models over given rows, and compare the result with the expected rows."""

    help = (
        "Run unit tests of models: given input rows, expected rows. No table is read or written. Ends with 0 if all "
        "pass, 1 if some fail, 4 if the file cannot be read or does not fit the models."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            help="tests as YAML (docs/use/model_tests.md); default: those of described models in ELEVATA_MODEL_TESTS",
        )
        parser.add_argument(
            "--select", nargs="+", metavar="NAME", default=[], help="run these tests, or those of these models, only"
        )

    def run(self, *, file: str | None, select: list[str], **options: Any) -> None:
        tests = read_tests(Path(file), select) if file else described_tests(Path(settings.MODEL_TESTS), select)
        outcomes = {outcome.name: outcome for outcome in self.outcomes(tests)}
        ordered = [outcomes[test.name] for test in tests.tests]
        for outcome in ordered:
            self._say_outcome(outcome)
        self.print_json([asdict(outcome) for outcome in ordered])
        failed = [outcome.name for outcome in ordered if not outcome.passed]
        if failed:
            raise CommandExit(DIFFERENT_EXIT, f"{len(failed)} of {counted(len(ordered), 'test')} failed")
        self.say(f"{counted(len(ordered), 'test')} passed")

    def outcomes(self, tests: ModelTests) -> list[ModelTestOutcome]:
        """Return the outcomes of the tests, from a Spark session of this command."""
        outcomes: list[ModelTestOutcome] = []
        if tests.tests:
            with temporary_runner("test_models") as runner:
                run_cases(runner, "model_tests", tests, lambda item: outcomes.append(from_json(ModelTestOutcome, item)))
        return outcomes

    def _say_outcome(self, outcome: ModelTestOutcome) -> None:
        sign = "passed" if outcome.passed else "failed"
        self.say(f"{sign}  {outcome.model}: {outcome.name}")
        if not outcome.passed:
            self.say(f"  {outcome.message}")
            for line in printable(outcome.table, self.stdout).splitlines():
                self.say(f"  {line}")
