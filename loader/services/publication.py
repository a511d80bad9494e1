"""Publication of an environment's names in the shared catalog."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from django.conf import settings

from architecture.models import Environment
from architecture.selectors.environments import applied_states
from architecture.services.states import last_seen
from elevata.core.database import retried
from loader.domain.catalog import catalog_of
from loader.domain.manifest import PublishManifest
from loader.domain.publication import Finding, mark_of, names_of, narrowed, of_answer
from loader.domain.refusals import Refusal
from loader.services.worker import Conversation, Stopped
from metadata.domain.state import DatasetState
from metadata.models import TargetSchema

EMBEDDED = "embedded"
PUBLISH = "publish"
_REPAIR = "run manage.py publish"


def is_shared() -> bool:
    """Return True if names are published in a catalog that others read."""
    return settings.CATALOG != EMBEDDED


def must_be_shared() -> None:
    """Raise Refusal EMBEDDED_CATALOG where there is no catalog to publish in."""
    if not is_shared():
        raise Refusal(
            "EMBEDDED_CATALOG",
            "the embedded catalog lives in the runner alone: there is nothing to publish",
            hint="Set ELEVATA_CATALOG to a Hive metastore, or give other programs what manage.py catalog prints.",
        )


def publish_manifest(
    *,
    environment: Environment,
    check: bool = False,
    datasets: Collection[str] | None = None,
    becoming: Iterable[DatasetState] = (),
) -> PublishManifest:
    """Return the names of an environment as they were applied, by default all: tables, views and functions.

    ``datasets`` narrows them to some, by stable key, and to the views over their tables. ``becoming`` are states
    that an execution is about to record.
    """
    by_key = {state.key: state for state in (*applied_states(environment=environment), *becoming)}
    states, seen = by_key.values(), last_seen(environment=environment)
    missing = {key for key in seen.asked if key not in seen.tables or seen.tables[key].dropped}
    entries = catalog_of(states, warehouse=environment.warehouse, missing=missing)
    names = names_of(entries, states, warehouse=environment.warehouse)
    schemas = {name.name.partition(".")[0] for name in names}
    if datasets is None:
        schemas |= {state.schema for state in states} | set(TargetSchema.objects.values_list("name", flat=True))
    else:
        names = narrowed(names, datasets)
    mark = mark_of(environment.warehouse)
    return PublishManifest(names, tuple(sorted(schemas)), mark, settings.CATALOG, check, whole=datasets is None)


@dataclass(frozen=True)
class Publication:
    """Result of publishing: ``findings`` are what is left, by name, or ``refusal`` why nothing was published."""

    findings: Mapping[str, Finding] = field(default_factory=dict)
    refusal: Refusal | None = None

    def problem_of(self, name: str) -> Refusal | None:
        """Return why a name is not published, None if it is."""
        finding = self.findings.get(name)
        return self.refusal or (Refusal("NOT_PUBLISHED", finding.one_line()) if finding else None)


def publish_after(*, talk: Conversation, manifest: PublishManifest) -> Publication:
    """Publish after a load or an execution, and tell what is left as warnings.

    The tables are written by then: a catalog that is down, or a name that is taken, fails none of them.
    """
    try:
        finished = talk.ask(PUBLISH, manifest)
    except Stopped:
        finished = {"error": Refusal("WORKER_STOPPED", "the work was stopped", hint=_REPAIR).as_json()}
    if finished.get("error"):
        refusal = Refusal.from_json(finished["error"])
        _warn(talk, f"names were not published: {refusal.one_line()}")
        return Publication(refusal=refusal)
    findings = of_answer(finished["answer"])
    for finding in findings:
        _warn(talk, f"not published: {finding.one_line()}")
    return Publication({finding.name: finding for finding in findings})


def _warn(talk: Conversation, message: str) -> None:
    retried(partial(talk.attempt.say, message, level="warning"))
