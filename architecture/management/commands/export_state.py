"""Command that writes a state file of the metadata, or of an environment's applied state."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from architecture.domain.states.state_files import ArchitectureState, dump_state
from architecture.selectors.dataset_states import applied_states
from architecture.selectors.environments import environment_named
from architecture.services.environments import current_environment
from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand, json_text
from metadata.selectors.dataset_states import dataset_states


class Command(ProductCommand):
    help = (
        "Write the desired state (or, with --applied, an environment's applied one) as a state file, which "
        "'manage.py plan --previous-state A --desired-state B' compares with another. Equal states give equal files."
    )
    refused_exit = INVALID
    with_json = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", type=Path, nargs="?", help="default: standard output")
        parser.add_argument(
            "--applied", action="store_true", help="export the applied state instead of the desired one"
        )
        parser.add_argument("--environment", metavar="E", help="with --applied; default: the installation's own")

    def run(self, *, path: Path | None, applied: bool, environment: str | None, **_: Any) -> None:
        if environment and not applied:
            raise CommandExit(INVALID, "--environment goes with --applied: what is described is the same everywhere")
        states = _applied(environment) if applied else dataset_states()
        text = dump_state(ArchitectureState(states))
        if path is None:
            self.stdout.write(json_text(json.loads(text), self.stdout))
            return
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as problem:
            raise CommandExit(FAILED, f"{path}: {problem.strerror}") from None
        self.say(f"{len(states)} datasets written to {path}")


def _applied(environment: str | None) -> tuple:
    row = environment_named(environment) if environment else current_environment()
    return applied_states(environment=row)
