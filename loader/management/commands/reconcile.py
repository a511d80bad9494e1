"""Command that brings the control database and the warehouse together after a restore."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from architecture.services.drift import adopt_as_baseline
from architecture.services.environments import current_environment
from architecture.services.refreshes import refresh_now
from architecture.services.report_basis import tables_in_scope
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, CommandExit
from loader.management.run_command import MaintenanceCommand
from loader.services.maintenance.acceptances import request_accept
from loader.services.reconciliation import Behind, differences
from metadata.domain.scope import Scope

_WORDS = {
    "adopt": "adopt as applied",
    "accept": "accept the table",
    "missing": "the table is missing: restore it, or create it anew by a report",
}


class Command(MaintenanceCommand):
    help = (
        "After the control database or the warehouse was restored from a backup: observe all tables, print the "
        "datasets that differ, adopt their tables and views as applied, and accept tables whose runs differ. Runs "
        "whose rows a table lacks count as reverted. Exit code: 0 if nothing differs any more, 1 if not."
    )

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="only print the datasets that differ")
        parser.add_argument("--reason", default="", help="reason, stored with the changes")
        self.local_argument(parser)

    def run(self, *, check: bool, reason: str, local: bool, **_: Any) -> None:
        if not check and not reason.strip():
            raise CommandExit(INVALID, "enter a reason (--reason)", "NO_REASON")
        behind = self._observed(local)
        self._print(behind)
        if check or not behind:
            self.print_json(behind.names)
            if behind:
                raise CommandExit(FAILED, "the control database and the warehouse differ", "behind")
            return
        self._bring_on(behind, reason, local)
        rest = self._observed(local)
        self.print_json(behind.names | {"left": rest.names})
        if rest:
            self._print(rest)
            raise CommandExit(FAILED, "some datasets still differ", "behind")

    def _observed(self, local: bool) -> Behind:
        environment = current_environment()
        refresh_now(
            environment=environment, keys=tables_in_scope(environment=environment, scope=Scope()), local=local or None
        )
        return differences(environment)

    def _bring_on(self, behind: Behind, reason: str, local: bool) -> None:
        """Adopt and accept the datasets, each one even if another one is refused."""
        keys = [state.key for state in behind.unapplied]
        if keys:
            user = current_actor().user
            adopt_as_baseline(environment=current_environment(), dataset_keys=keys, user=user, reason=reason)
        for state in behind.moved:
            request = partial(request_accept, dataset=state.qualified_name, reason=reason)
            try:
                self.perform(request, local=local)
            except CommandExit as failed:
                self.say(f"{state.qualified_name}: {failed}")

    def print_json(self, document: Any) -> None:
        """Print one document: that of the command, not those of its runs."""
        if "run_id" not in document:
            super().print_json(document)

    def _print(self, behind: Behind) -> None:
        for kind, names in behind.names.items():
            for name in names:
                self.say(f"{name}: {_WORDS[kind]}")
        if not behind:
            self.say("nothing differs")
