"""Applied state of a dataset, as stored by an execution."""

from architecture.domain.states.flat_states import as_row
from architecture.models import AppliedDataset, Environment
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_state


def apply_state(dataset: TargetDataset) -> None:
    """Record the described state of a dataset as executed in an environment."""
    environment, _ = Environment.objects.get_or_create(name="dev", defaults={"warehouse": "/warehouse"})
    row = TargetDataset.objects.get(pk=dataset.pk)
    AppliedDataset.objects.update_or_create(
        environment=environment,
        dataset_key=row.key,
        defaults={"qualified_name": str(row), "state": as_row(dataset_state(row))},
    )
