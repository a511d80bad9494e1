"""Command that checks the health of a worker, for containers."""

from argparse import ArgumentParser
from socket import gethostname
from typing import Any

from elevata.accounts.cli import CommandExit, ProductCommand
from elevata.jobs.registry import live_workers


class Command(ProductCommand):
    """Command to exit with 0 if a worker of this host has a recent heartbeat, else with 1."""

    help = "Exit 0 if a worker of this host is alive, 1 if not."
    takes_user = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--any", action="store_true", help="accept a worker of any host")

    def run(self, **options: Any) -> None:
        workers = [
            {"name": worker.name, "heartbeat_at": worker.heartbeat_at.isoformat(), "runner_pid": worker.runner_pid}
            for worker in live_workers()
            if options["any"] or worker.name.startswith(f"{gethostname()}:")
        ]
        if not workers:
            raise CommandExit(1, "no worker is answering", "no_worker")
        self.print_json(workers)
        self.say(", ".join(str(worker["name"]) for worker in workers) + " alive")
