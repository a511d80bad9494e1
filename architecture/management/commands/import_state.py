"""Take a state file for what was applied: the baseline of a warehouse that another installation filled."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from architecture.domain.states.state_files import StateProblem
from architecture.management.decision_command import REFUSED_EXIT
from architecture.management.state_files import read_state
from architecture.selectors import environment_named
from architecture.services.states.environments import current_environment
from architecture.services.states.state_files import Imported, import_state
from elevata.core.cli import INVALID, CommandExit, ProductCommand
from metadata.services.actor import current_actor


class Command(ProductCommand):
    help = (
        "Take the datasets of a state file for applied in an environment, as the person whose personal token is in "
        "ELEVATA_TOKEN: only those that nothing was applied of there, all of them or none. The warehouse is not "
        "touched; 'manage.py drift' then tells where it is not so. Ends with 0, 2 if it is refused (with the reason's "
        "code), 4 if the file cannot be taken."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="as 'manage.py export_state --applied' writes it")
        parser.add_argument("--environment", metavar="E", help="default: the installation's own")
        parser.add_argument("--check", action="store_true", help="only show what would be taken")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why; stands in the change log")

    def run(self, *, file: Path, environment: str | None, check: bool, reason: str, **_: Any) -> None:
        own = not environment or environment == settings.ENVIRONMENT
        row = current_environment() if own else environment_named(environment)
        try:
            state = read_state(file)
        except StateProblem as problem:
            raise CommandExit(INVALID, problem.one_line(), problem.code) from None
        done = import_state(environment=row, state=state, person=current_actor().user, reason=reason, check=check)
        document = {"environment": row.name, "check": check}
        self.print_json(document | {"imported": list(done.imported), "unchanged": list(done.unchanged)})
        self._tell(done, row.name, check)

    def _tell(self, done: Imported, environment: str, check: bool) -> None:
        verb = "would be taken" if check else "taken"
        for name in done.imported:
            self.say(f"  {verb}  {name}")
        for name in done.unchanged:
            self.say(f"  applied already, just so  {name}")
        count = len(done.imported)
        self.say(f"{count} {'dataset' if count == 1 else 'datasets'} {verb} for applied in {environment}")
