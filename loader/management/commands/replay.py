"""Command that runs history cases on the Spark engine, in a temporary folder."""

import shutil
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from elevata.core.processes import process_name
from loader.domain.manifest import ReplayManifest
from loader.domain.reference.cases import Case, CaseProblem, parse_cases, select
from loader.domain.refusals import Refusal
from loader.services.runner.supervisor import Runner, runner_config

DIFFERENT_EXIT = 1
_LOOK_SECONDS = 1.0


class Command(ProductCommand):
    """Command to apply the batches of each case to an empty history and compare the table with the expected one."""

    help = "Run history cases on Spark and Delta and compare: exit 0 all as expected, 1 some differ, 4 unreadable."

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="cases as JSON (shared/contracts: history_cases.json)")
        parser.add_argument("--only", nargs="+", metavar="ID", help="run these cases only")

    def run(self, **options: Any) -> None:
        path = Path(options["file"])
        text, cases = self._read(path, options["only"])
        found = self._replayed(text, cases) if cases else {}
        self.print_json([found[case.id] for case in cases])
        failed = [case.id for case in cases if not found[case.id]["passed"]]
        if failed:
            raise CommandExit(DIFFERENT_EXIT, f"{len(failed)} of {len(cases)} cases differ: {', '.join(failed)}")
        self.say(f"{len(cases)} cases, all as expected")

    @staticmethod
    def _read(path: Path, only: list[str] | None) -> tuple[str, list[Case]]:
        try:
            text = path.read_text(encoding="utf-8")
            return text, select(parse_cases(text), only)
        except (OSError, UnicodeDecodeError, CaseProblem) as problem:
            said = getattr(problem, "strerror", None) or str(problem)
            raise CommandExit(INVALID, f"{path}: {said}", "unreadable") from None

    def _replayed(self, text: str, cases: list[Case]) -> dict[str, dict]:
        """Return the runner's outcome of each case, by id. A cluster's workers can see the temporary folder, too."""
        Path(settings.DATA_DIR).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="replay-", dir=settings.DATA_DIR))
        config = runner_config() | {"warehouse": str(folder / "warehouse")}
        runner = Runner(holder=f"manage.py replay, {process_name()}", config=config, folder=folder)
        try:
            runner.start()
            return self._listen(runner, ReplayManifest(text, tuple(case.id for case in cases)))
        finally:
            runner.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _listen(self, runner: Runner, manifest: ReplayManifest) -> dict[str, dict]:
        exchange, found = runner.request("replay", manifest), {}
        while True:
            event = exchange.next(timeout=_LOOK_SECONDS)
            if event is None:
                continue
            if event["event"] == "finished":
                if event["status"] != "succeeded":
                    raise Refusal.from_json(event["error"])
                return found
            outcome = event["outcome"]
            found[outcome["id"]] = outcome
            self.say(f"{'ok     ' if outcome['passed'] else 'differs'} {outcome['id']} {outcome['message']}".rstrip())
