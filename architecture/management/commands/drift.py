"""Command that shows the differences between applied state and warehouse."""

import logging
from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from architecture.domain.current_state import DRIFTED, UNKNOWN
from architecture.domain.report import Scope
from architecture.models import Environment
from architecture.selectors.environments import applied_states, described_states, environment_named
from architecture.services.drift import Drift, adopt_as_baseline, drift_of
from architecture.services.refreshes import CannotRefresh, refresh_now
from architecture.services.reports import tables_in_scope
from architecture.services.states import current_environment
from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.accounts.permissions import current_actor

log = logging.getLogger(__name__)


class Command(ProductCommand):
    help = (
        "Compare what was applied with what is there: in sync, drifted, unknown. With --adopt a dataset's tables are "
        "taken as they are. Ends with 0 if all is in sync, 1 if not, 4 for an unknown environment or dataset."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--environment", metavar="E", help="default: the installation's own")
        parser.add_argument("--local", action="store_true", help="refresh in this process")
        parser.add_argument(
            "--adopt", action="append", default=[], metavar="S.D", help="adopt this dataset; repeatable"
        )
        parser.add_argument("--reason", default="", metavar="TEXT", help="reason, recorded in the change log")

    def run(self, *, environment: str | None, local: bool, adopt: list[str], reason: str, **_: Any) -> None:
        own = not environment or environment == settings.ENVIRONMENT
        row = current_environment() if own else environment_named(environment)
        if own:
            try:
                refresh_now(environment=row, keys=tables_in_scope(environment=row, scope=Scope()), local=local or None)
            except CannotRefresh as problem:
                log.warning("compared with the last scan, because the warehouse cannot be scanned: %s", problem)
        if adopt:
            keys = _keys_of(row, adopt)
            adopt_as_baseline(environment=row, dataset_keys=keys, user=current_actor().user, reason=reason)
        found = drift_of(row)
        self.print_json({"environment": row.name, **found.as_json()})
        if not self._as_json:
            self._tell(found)
        drifted, unknown = found.count(DRIFTED), found.count(UNKNOWN)
        if drifted or unknown:
            parts = [f"{drifted} drifted"] * bool(drifted) + [f"{unknown} unknown"] * bool(unknown)
            raise CommandExit(FAILED, f"of {len(found.datasets)} datasets {' and '.join(parts)}", "drift")

    def _tell(self, found: Drift) -> None:
        for dataset in found.datasets:
            self.say(
                f"{dataset.dataset}: {dataset.status.replace('_', ' ')}" + f" ({dataset.reason})" * bool(dataset.reason)
            )
            for difference in dataset.differences:
                self.say(f"  {difference.describe()}")
        seen = f"seen at {found.at:%Y-%m-%d %H:%M:%S} UTC" if found.at else "never seen"
        self.say(f"{len(found.datasets)} datasets, {seen}")


def _keys_of(environment: Environment, names: list[str]) -> list[str]:
    states = (*applied_states(environment=environment), *described_states(environment=environment))
    known = {state.qualified_name: state.key for state in states}
    for name in names:
        if name not in known:
            raise CommandExit(INVALID, f"there is no dataset {name}", "UNKNOWN_DATASET")
    return [known[name] for name in names]
