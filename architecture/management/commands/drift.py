"""Command that prints the drift of an environment, and adopts tables as applied state."""

import logging
from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from architecture.domain.states.dataset_drift import DRIFTED, UNKNOWN
from architecture.models import Environment
from architecture.selectors.dataset_states import applied_states, described_states
from architecture.services.drift import Drift, adopt_as_baseline, drift_of
from architecture.services.environments import environment_or_own
from architecture.services.refreshes import CannotRefresh, refresh_now
from architecture.services.report_basis import tables_in_scope
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.core.words import counted
from metadata.domain.scope import Scope

log = logging.getLogger(__name__)


class Command(ProductCommand):
    help = (
        "Compare the applied state with the warehouse and print each dataset as in sync, drifted or unknown. With "
        "--adopt, store the observed tables of a dataset as its applied state (requires --reason). Exit code: 0 if "
        "all datasets are in sync, 1 if not, 4 if an argument is invalid or the adoption is refused."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--environment", metavar="E", help="environment (default: the installation's own)")
        parser.add_argument("--local", action="store_true", help="refresh in this process")
        parser.add_argument(
            "--adopt", action="append", default=[], metavar="S.D", help="dataset to adopt (schema.dataset); repeatable"
        )
        parser.add_argument("--reason", default="", metavar="TEXT", help="reason, recorded in the change log")

    def run(self, *, environment: str | None, local: bool, adopt: list[str], reason: str, **_: Any) -> None:
        row = environment_or_own(environment)
        # Another environment's warehouse cannot be read from here: its last observations are used.
        if row.name == settings.ENVIRONMENT:
            try:
                refresh_now(environment=row, keys=tables_in_scope(environment=row, scope=Scope()), local=local or None)
            except CannotRefresh as problem:
                if adopt:
                    message = f"cannot adopt: the refresh failed: {problem.one_line()}"
                    raise CommandExit(INVALID, message, problem.code) from None
                log.warning("the refresh failed, so drift uses the last observations: %s", problem)
        if adopt:
            keys = _keys_of(row, adopt)
            adopt_as_baseline(environment=row, dataset_keys=keys, user=current_actor().user, reason=reason)
        drift = drift_of(row)
        self.print_json({"environment": row.name, **drift.as_json()})
        if not self._as_json:
            self._print_datasets(drift)
        summary = _summary(drift)
        if summary:
            raise CommandExit(FAILED, summary, "drift")

    def _print_datasets(self, drift: Drift) -> None:
        for dataset in drift.datasets:
            self.say(
                f"{dataset.dataset}: {dataset.status.replace('_', ' ')}" + f" ({dataset.reason})" * bool(dataset.reason)
            )
            for difference in dataset.differences:
                self.say(f"  {difference.describe()}")
        checked = f"last checked {drift.at:%Y-%m-%d %H:%M:%S} UTC" if drift.at else "never checked"
        self.say(f"{counted(len(drift.datasets), 'dataset')}, {checked}")


def _summary(drift: Drift) -> str:
    """Return the numbers of drifted and unknown datasets; empty if all are in sync."""
    counts = [(number, status) for status in (DRIFTED, UNKNOWN) if (number := drift.count(status))]
    if not counts:
        return ""
    (number, status), *others = counts
    more = "".join(f", {other} {name}" for other, name in others)
    return f"{number} of {counted(len(drift.datasets), 'dataset')} {status}{more}"


def _keys_of(environment: Environment, names: list[str]) -> list[str]:
    states = (*applied_states(environment=environment), *described_states(environment=environment))
    known = {state.qualified_name: state.key for state in states}
    for name in names:
        if name not in known:
            raise CommandExit(INVALID, f"there is no dataset {name!r}; write it as schema.dataset", "UNKNOWN_DATASET")
    return [known[name] for name in names]
