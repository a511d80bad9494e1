"""Fixtures of pages of datasets."""

import pytest

from architecture.services.environments import current_environment
from architecture.services.states import write_applied
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states


@pytest.fixture
def view(airport: TargetDataset) -> TargetDataset:
    """Return the stage view over the airports' raw table, as if an execution had created both."""
    for state in dataset_states():
        write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)
    return TargetDataset.objects.get(name="stg_air_airport")
