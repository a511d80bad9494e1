"""Command that approves a maintenance run which another user requested."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.actors import current_actor
from elevata.accounts.cli import REFUSED, CommandExit, ProductCommand
from loader.models import LoadRun
from loader.services.maintenance.approvals import approve_maintenance, missing_approvals


class Command(ProductCommand):
    """Command to approve a prune, a revert, an acceptance or a decision on quarantined rows."""

    help = (
        "Approve a maintenance run as the user of the token in ELEVATA_TOKEN. It is queued once it has the approvals "
        "of the environment's policy. Users cannot approve runs that they requested. Ends with 0, or 2 if it is "
        "refused (with the reason's code)."
    )
    refused_exit = REFUSED

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", metavar="RUN", help="id of the run")
        parser.add_argument("--note", default="", metavar="TEXT", help="reason, stored with the approval")

    def run(self, *, run: str, note: str, **options: Any) -> None:
        row = LoadRun.objects.filter(run_id=run).first()
        if row is None:
            raise CommandExit(REFUSED, f"UNKNOWN_RUN: there is no run {run}", "UNKNOWN_RUN")
        user = current_actor().user
        queued = approve_maintenance(run=row, user=user, note=note)
        row.refresh_from_db()
        missing = 0 if queued else missing_approvals(row)
        self.print_json({"run_id": row.run_id, "status": row.status, "approvals_missing": missing})
        self.say(f"approved by {user}: run {row.run_id} is {row.status}")
