"""Components of the hashes of a dataset: its entity key and its row hash."""

from loader.contract.manifest.loads import HashComponent
from metadata.domain.history.history_policy import (
    HistoryPolicy,
)
from metadata.domain.state import DatasetState


def entity_key_components(dataset: DatasetState) -> tuple[HashComponent, ...]:
    """Return the hash components of a dataset's entity key: the columns of its business key."""
    return tuple(HashComponent(column.key, column.name) for column in dataset.business_key)


def row_hash_components(dataset: DatasetState) -> tuple[HashComponent, ...]:
    """Return the hash components of a row hash: tracked attributes, never the time or the operation (rule 12)."""
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    return tuple(
        HashComponent(column.key, column.name)
        for column in dataset.attributes
        if column.name not in policy.uncompared and (policy.track is None or column.name in policy.track)
    )
