"""Selection of the histories to check, and the manifest of a check."""

from collections.abc import Iterable

from architecture.domain.states.tables import history_table, rawcore_table
from architecture.selectors import described_state
from architecture.services import current_environment
from loader.domain.historization.layers import entity_key_components, row_hash_components
from loader.domain.runs.dependencies import named_dataset
from loader.domain.runs.manifest import CheckManifest
from loader.domain.runs.refusals import Refusal
from loader.services.runs.manifests import leading_table, newest_applied
from metadata.classification import classification
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.selectors import dataset_states


def historized(names: Iterable[str] = ()) -> list[TargetDataset]:
    """Return the named datasets (by their own or their history's name), or all historized ones, by name.

    Raise Refusal ``UNKNOWN_DATASET``, ``RETIRED`` or ``NO_HISTORY`` for a name that means none.
    """
    states = dataset_states()
    by_key = {state.key: state for state in states}
    chosen = [named_dataset(by_key, name) for name in names] or [state for state in states if _has_history(state)]
    for state in chosen:
        if not _has_history(state):
            raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    found = {str(row.key): row for row in TargetDataset.objects.filter(key__among=[state.key for state in chosen])}
    return [found[key] for key in dict.fromkeys(state.key for state in chosen)]


def _has_history(state: DatasetState) -> bool:
    return state.active and state.historize and state.materialization == "table" and state.history_key is not None


def check_manifest(*, dataset: TargetDataset, samples: int, timeout_seconds: float) -> CheckManifest:
    """Return the manifest of a check of a dataset's history. Raise Refusal ``NO_HISTORY``."""
    state = described_state(dataset, environment=current_environment())
    if not _has_history(state):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    leading = {state.key: leading_table(state)}
    applied = newest_applied(environment=current_environment(), leading=leading).get(state.key)
    return CheckManifest(
        name=state.qualified_name,
        history=history_table(state),
        rawcore=rawcore_table(state),
        entity_key=entity_key_components(state),
        row_hash=row_hash_components(state),
        policy=dict(state.history_policy),
        samples=samples,
        timeout_seconds=timeout_seconds,
        newest_applied=applied.sequence if applied else None,
        sensitive=tuple(sorted(classification(dataset).sensitive_names)),
    )
