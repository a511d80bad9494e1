"""Published names of an environment, and their publication after a load or an execution.

Names are published after the tables are written: an unavailable catalog, or a name that is taken, fails no table.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from django.conf import settings

from architecture.domain.states.flat_states import of_row
from architecture.models import Environment, Execution
from architecture.selectors.dataset_states import applied_states, changed_schemas
from architecture.services.execution_attempts import ExecutionAttempt
from architecture.services.observations import last_observations
from elevata.core.database import retried
from loader.contract.manifest.publication import PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import VIEW, Entry, catalog_of, names_of_dataset
from loader.domain.catalogs.catalog_setting import EMBEDDED
from loader.domain.catalogs.publication import (
    INCOMPLETE,
    UNSUPPORTED,
    Finding,
    concerned,
    mark_of,
    names_of,
    narrowed,
    of_answer,
)
from loader.runner.conversation import Conversation, Stopped
from metadata.domain.state import DatasetState
from metadata.models import TargetSchema

PUBLISH = "publish"


def is_shared() -> bool:
    """Return True if names are published in a catalog that other programs read."""
    return settings.CATALOG != EMBEDDED


def must_be_shared() -> None:
    """Raise Refusal EMBEDDED_CATALOG if names are published in the runner's own catalog only."""
    if not is_shared():
        raise Refusal(
            "EMBEDDED_CATALOG",
            "the embedded catalog lives in the runner alone: there is nothing to publish",
            hint="Set ELEVATA_CATALOG to a Hive metastore or to a catalog of Spark's settings, or give other programs "
            "what manage.py catalog prints.",
        )


def published(*, environment: Environment, names: Collection[str] | None = None) -> tuple[Entry, ...]:
    """Return every published table and view of an environment.

    Only applied tables are published, without those that were missing or dropped when last observed. ``names``, in
    lower case, restrict it to the datasets with these names and to those that their views read.
    """
    return _entries(environment, applied_states(environment=environment), names)


def _entries(
    environment: Environment, states: Iterable[DatasetState], names: Collection[str] | None = None
) -> tuple[Entry, ...]:
    missing = missing_tables(environment=environment)
    return catalog_of(states, warehouse=environment.warehouse, missing=missing, names=names)


def published_names(*, environment: Environment) -> list[str]:
    """Return the names of all applied datasets in the catalog, also of those whose tables are missing."""
    return [name for state in applied_states(environment=environment) for name in names_of_dataset(state)]


def missing_tables(*, environment: Environment) -> frozenset[str]:
    """Return the stable keys of the tables that were missing or dropped when last observed."""
    observations = last_observations(environment=environment)
    return frozenset(
        key for key in observations.keys if key not in observations.tables or observations.tables[key].dropped
    )


def publish_manifest(
    *,
    environment: Environment,
    check: bool = False,
    datasets: Collection[str] | None = None,
    becoming: Iterable[DatasetState] = (),
) -> PublishManifest:
    """Return the manifest that publishes the applied tables, views and functions of an environment.

    ``datasets`` restricts them to datasets, by stable key, and to the views over their tables. ``becoming`` are
    states that an execution is about to record.
    """
    by_key = {state.key: state for state in (*applied_states(environment=environment), *becoming)}
    states, warehouse = tuple(by_key.values()), environment.warehouse
    if datasets is not None:
        states = concerned(states, datasets)
    prefix = settings.CATALOG_PREFIX if is_shared() else ""
    names = names_of(_entries(environment, states), states, warehouse=warehouse, prefix=prefix)
    schemas = {name.name.partition(".")[0] for name in names}
    if datasets is None:
        described = TargetSchema.objects.values_list("name", flat=True)
        used = {*described, *(state.schema for state in states), *changed_schemas(environment=environment)}
        schemas |= {f"{prefix}{schema}" for schema in used}
    else:
        names = narrowed(names, datasets)
    ordered = tuple(sorted(schemas))
    return PublishManifest(names, ordered, mark_of(warehouse), settings.CATALOG, check, whole=datasets is None)


@dataclass(frozen=True)
class Publication:
    """Result of publishing: ``findings`` by name that was not published, or ``refusal`` if none was.

    It is ``incomplete`` if nothing was done because all names must be published first.
    """

    findings: Mapping[str, Finding] = field(default_factory=dict)
    refusal: Refusal | None = None
    incomplete: bool = False

    def shows(self, name: str) -> bool:
        """Return True if the catalog showed the name when it was read again."""
        return self.refusal is None and name not in self.findings

    def problem_of(self, name: str) -> Refusal | None:
        """Return the reason why a name is not published; None if it is, or if the catalog cannot have it."""
        finding = self.findings.get(name)
        if finding is None or finding.problem == UNSUPPORTED:
            return self.refusal
        return Refusal("NOT_PUBLISHED", finding.one_line())


def publish_after(*, talk: Conversation, manifest: PublishManifest) -> Publication:
    """Publish names after a load or an execution, and warn about those that could not be published."""
    try:
        finished = talk.ask(PUBLISH, manifest)
    except Stopped:
        stopped = Refusal("WORKER_STOPPED", "the work was stopped", hint="run manage.py publish, or load again")
        finished = {"error": stopped.as_json()}
    if finished.get("error"):
        refusal = Refusal.from_json(finished["error"])
        _warn(talk, f"names were not published: {refusal.one_line()}")
        return Publication(refusal=refusal)
    findings = of_answer(finished["answer"])
    for finding in findings:
        _warn(talk, f"not published: {finding.one_line()}")
    by_name = {finding.name: finding for finding in findings}
    return Publication(by_name, incomplete=finished["answer"].get(INCOMPLETE, False))


def _warn(talk: Conversation, message: str) -> None:
    retried(partial(talk.attempt.say, message, level="warning"))


def publish_execution(
    *, execution: Execution, attempt: ExecutionAttempt, talk: Conversation, needs_views: bool = True
) -> Refusal | None:
    """Publish all names after the steps, and finish the rows that change no table.

    The row of a view gets its statement once the catalog shows the view. With ``needs_views``, the row of a view that
    is not published fails; return the first such error.
    """
    ordinals = retried(attempt.silent_rows)
    rows = retried(lambda: {row.ordinal: row for row in execution.operations.filter(ordinal__in=ordinals)})
    planned = retried(partial(Execution.objects.get, pk=execution.pk)).planned
    desired = {key: of_row(row) for key, row in planned["desired"].items()}
    becoming = [desired[key] for row in rows.values() if (key := str(row.dataset_key)) in desired]
    manifest = retried(partial(publish_manifest, environment=execution.environment, becoming=becoming))
    publication = publish_after(talk=talk, manifest=manifest)
    described = {state.key for state in becoming if state.materialization == VIEW}
    views = {name.dataset: name for name in manifest.names if name.kind == VIEW and name.dataset in described}
    problem = None
    for ordinal, row in rows.items():
        view = views.get(str(row.dataset_key))
        error = publication.problem_of(view.name) if view is not None and needs_views else None
        problem = problem or error
        if view is not None and publication.shows(view.name):
            retried(partial(attempt.step_started, ordinal, statement=view.statement))
        end = partial(attempt.step_finished, ordinal, succeeded=error is None)
        retried(partial(end, error=error.as_json() if error is not None else None))
    return problem
