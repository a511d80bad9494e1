"""Generated control database, and the objects whose pages are measured."""

from dataclasses import dataclass
from time import monotonic
from typing import Any

from django.db import connection
from django.utils import timezone

from architecture.models import ChangeReport, Environment
from architecture.services.environments import current_environment
from architecture.services.health import refresh_findings
from architecture.services.reports import build_report
from bench.web.metadata import add_columns, describe, log_edits
from bench.web.reports import apply, decide, everything_anew
from bench.web.runs import load
from bench.web.size import Size
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from loader.models import LoadRun
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states


@dataclass(frozen=True)
class Control:
    """Objects whose pages are requested, besides those that a query finds.

    ``dataset`` is a historized one in the middle, ``hub`` the most referenced one. ``everything`` is a report that
    covers all pending changes, ``first_day`` one that creates every dataset of another environment; ``busy`` is the
    running load. ``people`` are users by role.
    """

    people: dict[str, Any]
    dataset: TargetDataset
    hub: TargetDataset
    everything: ChangeReport
    first_day: ChangeReport
    busy: LoadRun


def fill(size: Size, say: Any = lambda line: None) -> Control:
    """Fill an empty, migrated control database; the same size gives the same rows except for times."""
    now, began = timezone.now(), monotonic()

    def report_progress(what: str) -> None:
        say(f"{monotonic() - began:5.1f} s  {what}")

    roles = {role.value: [role] for role in Role} | {"everything": list(Role)}
    people: dict[str, Any] = {name: ensure_user(name=name, roles=some) for name, some in roles.items()}
    more = [ensure_user(name=f"editor-{number}", roles=[Role.EDITOR]) for number in range(size.people)]
    people["editors"] = [people["editor"], *more]
    rawcore = describe(size, people["everything"], report_progress)
    log_edits(rawcore, people["editors"], size, now=now)
    report_progress("change log")
    environment = current_environment()
    pending = apply(environment, size)
    add_columns(pending, people["editor"])
    report_progress("applied state, observations, pending changes")
    states = dataset_states()
    decide(environment, states, [people[name] for name in ("editor", "approver", "operator")], size, now=now)
    test, _ = Environment.objects.get_or_create(name="test", defaults={"warehouse": "/warehouse/test"})
    first_day = everything_anew(test, states, people["editor"])
    report_progress("reports, executions")
    everything = build_report(environment=environment, user=people["editor"])
    report_progress("the report of everything")
    busy = load(environment, states, people["operator"], size, now=now)
    refresh_findings()
    report_progress("load runs, findings about metadata")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    # One that refers to another, and that another refers to (``bench.web.metadata.parents``).
    dataset = rawcore[len(rawcore) // 12 * 6 + 3]
    return Control(people, dataset, rawcore[0], everything, first_day, busy)
