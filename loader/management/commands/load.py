"""Command that requests a load run, of a worker or with --local in this process."""

import sys
from argparse import ArgumentParser
from functools import partial
from typing import Any

from elevata.accounts.cli import CommandExit
from loader.management.run_command import RunningCommand, timestamp
from loader.services.loads.load_runs import request_load_run
from metadata.management.scope_options import add_scope_options, scope_of_options


class Command(RunningCommand):
    """Command to load and historize the datasets of a scope."""

    help = "Run one load: raw, rawcore and history of all datasets, of a schema, a dataset or a selection."

    def arguments(self, parser: ArgumentParser) -> None:
        add_scope_options(parser, selects_inputs=False)
        parser.add_argument("--target-only", action="store_true", help="leave out the dataset's inputs")
        parser.add_argument("--at", type=timestamp, metavar="TIMESTAMP", help="time of the run; default: now")
        parser.add_argument("--run-id", metavar="ID", help="id of the run; an id that exists repeats its run")
        parser.add_argument("--allow-empty", action="store_true", help="let an empty snapshot close all versions")
        parser.add_argument(
            "--allow-deletes", action="store_true", help="let a snapshot close more versions than the guard allows"
        )
        start = parser.add_mutually_exclusive_group()
        start.add_argument("--full", action="store_true", help="read all rows of sources with a watermark")
        start.add_argument(
            "--since", metavar="VALUE", default="", help="read rows of sources with a watermark from this value on"
        )
        self.local_argument(parser)

    def run(self, **options: Any) -> None:
        if options["target_only"] and not options["dataset"]:
            raise CommandExit(self.usage_exit, "--target-only goes with --dataset", "usage")
        is_given = any(options[name] for name in ("all", "schema", "dataset", "select", "exclude"))
        if not is_given and not options["run_id"] and sys.stdin.isatty():
            message = "name what to load: --all for every dataset, or --schema, --dataset, --select"
            raise CommandExit(self.usage_exit, message, "usage")
        request = partial(
            request_load_run,
            # Without a scope, a repeated run keeps its own.
            scope=scope_of_options(options, target_only=options["target_only"]) if is_given else None,
            load_timestamp=options["at"],
            run_id=options["run_id"],
            allow_empty=options["allow_empty"],
            allow_deletes=options["allow_deletes"],
            full=options["full"],
            since=options["since"],
        )
        self.perform(request, local=options["local"])
