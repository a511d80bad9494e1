"""Published names of an environment."""

from collections.abc import Collection, Iterable

from django.conf import settings

from architecture.models import Environment
from architecture.selectors.dataset_states import applied_states
from architecture.services.observations import last_seen
from loader.contract.manifest.publication import PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import Entry, catalog_of, names_of_dataset
from loader.domain.catalogs.catalog_setting import EMBEDDED
from loader.domain.catalogs.publication import concerned, mark_of, names_of, narrowed
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
    seen = last_seen(environment=environment)
    return frozenset(key for key in seen.asked if key not in seen.tables or seen.tables[key].dropped)


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
        schemas |= {f"{prefix}{schema}" for schema in (*described, *(state.schema for state in states))}
    else:
        names = narrowed(names, datasets)
    ordered = tuple(sorted(schemas))
    return PublishManifest(names, ordered, mark_of(warehouse), settings.CATALOG, check, whole=datasets is None)
