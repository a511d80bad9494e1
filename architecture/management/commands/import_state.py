"""Command that imports a state file as applied state: the baseline of a warehouse filled elsewhere."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.domain.states.state_files import StateProblem
from architecture.management.report_commands import REFUSED_EXIT, read_state
from architecture.services.environments import environment_or_own
from architecture.services.state_import import Imported, import_state
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from elevata.core.words import counted


class Command(ProductCommand):
    help = (
        "Record the datasets of a state file as the applied state of an environment, as the user of the token in "
        "ELEVATA_TOKEN. Only datasets without an applied state there are accepted, all of them or none. The warehouse"
        " is not changed; 'manage.py drift' then shows where it differs. Ends with 0, 2 if it is refused (with the "
        "reason's code), 4 if the file is invalid."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="as 'manage.py export_state --applied' writes it")
        parser.add_argument("--environment", metavar="E", help="default: the installation's own")
        parser.add_argument("--check", action="store_true", help="only show what would be recorded")
        parser.add_argument("--reason", default="", metavar="TEXT", help="reason, recorded in the change log")

    def run(self, *, file: Path, environment: str | None, check: bool, reason: str, **_: Any) -> None:
        row = environment_or_own(environment)
        try:
            state = read_state(file)
        except StateProblem as problem:
            raise CommandExit(INVALID, problem.one_line(), problem.code) from None
        done = import_state(environment=row, state=state, user=current_actor().user, reason=reason, check=check)
        document = {"environment": row.name, "check": check}
        self.print_json(document | {"imported": list(done.imported), "unchanged": list(done.unchanged)})
        self._tell(done, row.name, check)

    def _tell(self, done: Imported, environment: str, check: bool) -> None:
        verb = "would be taken" if check else "taken"
        for name in done.imported:
            self.say(f"  {verb}  {name}")
        for name in done.unchanged:
            self.say(f"  applied already, just so  {name}")
        self.say(f"{counted(len(done.imported), 'dataset')} {verb} for applied in {environment}")
