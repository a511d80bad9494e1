"""Leases, which keep a second run from writing to a dataset."""

from datetime import timedelta
from uuid import NAMESPACE_DNS, uuid5

import pytest
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.models import Environment, Lease
from architecture.selectors.environments import leases_held
from architecture.services.environments import current_environment
from architecture.services.executions import claim_execution
from architecture.services.leases import Holder, break_lease, release_leases, take_leases
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetDataset
from tests.architecture.executions import run_concurrently
from tests.architecture.services.test_reports import rename

pytestmark = pytest.mark.django_db

A, B, C = (str(uuid5(NAMESPACE_DNS, name)) for name in "abc")
LOAD, REVERT = Holder("load run", "run-1", 1), Holder("load run", "run-2", 1)


def take(holder: Holder, *keys: str):
    return take_leases(environment=current_environment(), dataset_keys=keys, holder=holder)


def refuse(holder: Holder, *keys: str) -> Refused:
    with pytest.raises(Refused) as error:
        take(holder, *keys)
    assert error.value.code == "LEASE_HELD"
    return error.value


def test_lease_of_a_dataset_is_refused_to_a_second_holder(db):
    take(LOAD, A, B)
    assert "load run run-1 writes to" in refuse(REVERT, B).message


def test_leases_of_several_datasets_are_taken_together_or_not_at_all(db):
    take(LOAD, B)
    refuse(REVERT, A, B, C)
    assert leases_held(environment=current_environment()).count() == 1


def test_released_lease_is_free_and_its_fence_grows(db):
    take(LOAD, A)
    assert release_leases(environment=current_environment(), holder=LOAD) == 1
    take(REVERT, A)
    assert Lease.objects.get(dataset_key=A).fence == 2


def test_expired_lease_is_taken_over_and_its_old_holder_cannot_renew_it(db):
    leases = take(LOAD, A)
    Lease.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    take(REVERT, A)
    assert not leases.renew()
    assert release_leases(environment=current_environment(), holder=LOAD) == 0


def test_heartbeat_renews_a_lease(db):
    leases = take(LOAD, A)
    Lease.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=20))
    assert leases.renew()
    assert Lease.objects.get().heartbeat_at > timezone.now() - timedelta(seconds=5)


def test_next_attempt_takes_over_the_lease_of_its_predecessor(db):
    old = take(LOAD, A)
    new = take(Holder("load run", "run-1", 2), A)
    assert (old.renew(), new.renew()) == (False, True)


def test_older_attempt_cannot_take_the_lease_of_a_newer_one(db):
    take(Holder("load run", "run-1", 2), A)
    refuse(LOAD, A)


def test_breaking_a_lease_requires_the_execute_permission_and_a_logged_reason(world):
    leases = take(LOAD, A)
    lease = Lease.objects.get()
    for user, reason, code in (
        (world.author, "stuck", "NOT_PERMITTED"),
        (None, "stuck", "NO_PERSON"),
        (world.operator, " ", "NO_REASON"),
    ):
        with pytest.raises(Refused) as error:
            break_lease(lease=lease, user=user, reason=reason)
        assert error.value.code == code
    break_lease(lease=lease, user=world.operator, reason="the machine is gone")
    assert not leases.renew()
    entry = ChangeLogEntry.objects.get(subject_kind="lease")
    assert (entry.actor, entry.reason) == ("olga", "the machine is gone")
    take(REVERT, A)


def test_execution_waits_while_a_load_holds_the_lease_and_names_it(built):
    rename(built, "full_name", "display_name")
    execution = built.queued()
    take(LOAD, str(TargetDataset.objects.get(name="rc_crm_customer").key))
    assert claim_execution(execution_pk=execution.pk, worker="w1") is None
    execution.refresh_from_db()
    assert (execution.status, "load run run-1 writes to rawcore.rc_crm_customer" in execution.phase) == ("queued", True)
    release_leases(environment=current_environment(), holder=LOAD)
    assert built.work(execution).status == "succeeded"
    assert not leases_held(environment=current_environment()).exists()


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_grant_a_lease_to_one_holder():
    current_environment()

    def attempt(number: int) -> bool:
        try:
            take(Holder("load run", f"run-{number}", 1), A, B, C)
        except Refused:
            return False
        return True

    assert sum(run_concurrently(*(lambda n=n: attempt(n) for n in range(6)))) == 1


# --- environments with the same warehouse ----------------------------------------------------------


def environment_with(warehouse: str) -> Environment:
    return Environment.objects.create(name="beside", warehouse=warehouse)


def test_lease_of_another_environment_with_the_same_warehouse_blocks_writing(db):
    other = environment_with(current_environment().warehouse)
    leases = take_leases(environment=other, dataset_keys=[A], holder=REVERT)
    assert "load run run-2 writes to" in refuse(LOAD, A).message
    take(LOAD, B)
    leases.release()
    take(LOAD, A)


def test_expired_lease_of_another_environment_blocks_no_writing(db):
    other = environment_with(current_environment().warehouse)
    take_leases(environment=other, dataset_keys=[A], holder=REVERT)
    Lease.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    take(LOAD, A)


def test_environments_with_warehouses_of_their_own_write_side_by_side(db):
    take_leases(environment=environment_with("s3a://another/tables"), dataset_keys=[A], holder=REVERT)
    take(LOAD, A)
