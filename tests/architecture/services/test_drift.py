"""Drift of an environment, and its adoption as baseline."""

import pytest

from architecture.domain.refusals import Refused
from architecture.models import AppliedDataset
from architecture.services.drift import adopt_as_baseline, drift_of
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetDataset

pytestmark = pytest.mark.django_db


def key() -> str:
    return str(TargetDataset.objects.get(name="rc_crm_customer").key)


def statuses(world) -> list[str]:
    return [dataset.status for dataset in drift_of(world.environment).datasets]


def change_by_hand(world) -> None:
    """Rename a column in base and history in the warehouse only."""
    for table in world.warehouse.shapes:
        world.warehouse.rename_behind_your_back(table, "balance", "other")


@pytest.fixture
def drifted(built):
    change_by_hand(built)
    built.warehouse.show()
    return built


def adopt(world, **changes):
    arguments = {"dataset_keys": [key()], "user": world.operator, "reason": "changed by hand"}
    return adopt_as_baseline(environment=world.environment, **arguments | changes)


def test_unchanged_dataset_is_in_sync(built):
    assert statuses(built) == ["in_sync"]
    assert drift_of(built.environment).at is not None


def test_dataset_changed_by_hand_is_drifted(drifted):
    (dataset,) = drift_of(drifted.environment).datasets
    assert (dataset.status, {difference.what for difference in dataset.differences}) == ("drifted", {"column_name"})


def test_drift_without_observations_is_unknown(built):
    built.environment.observations.all().delete()
    drift = drift_of(built.environment)
    assert (statuses(built), drift.at) == (["unknown"], None)


def test_drift_of_a_table_without_applied_state_is_unknown(built):
    AppliedDataset.objects.all().delete()
    assert set(statuses(built)) == {"unknown"}


def test_adopted_drift_is_in_sync_and_the_next_report_reverses_it(drifted):
    adopt(drifted)
    assert statuses(drifted) == ["in_sync"]
    operations = drifted.report().document["operations"]
    assert {(operation["op"], operation["from"], operation["to"]) for operation in operations} == {
        ("rename_column", "other", "balance")
    }


def test_dataset_without_applied_state_can_be_adopted(built):
    AppliedDataset.objects.all().delete()
    adopt(built)
    assert statuses(built) == ["in_sync"]
    assert built.report().status == "no_changes"


def test_adopting_a_missing_table_deletes_its_applied_state(built):
    built.warehouse.shapes.clear()
    built.warehouse.show([key()])
    adopt(built)
    assert not AppliedDataset.objects.exists()


def test_adopting_is_recorded_in_the_change_log(drifted):
    adopt(drifted)
    entry = ChangeLogEntry.objects.get(subject_kind="baseline")
    assert (entry.actor, entry.reason, str(entry.dataset_key)) == ("olga", "changed by hand", key())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"user": None}, "NO_PERSON"),
        ({"reason": " "}, "NO_REASON"),
        ({"dataset_keys": ["00000000-0000-0000-0000-000000000000"]}, "UNKNOWN_DATASET"),
    ],
)
def test_adopting_requires_a_user_a_reason_and_a_known_dataset(drifted, changes, code):
    with pytest.raises(Refused) as refused:
        adopt(drifted, **changes)
    assert refused.value.code == code
