"""Broken leases: all later writes of the former holder match no row."""

import pytest

from architecture.domain.refusals import Refused
from architecture.models import Execution, Lease
from architecture.selectors.environments import leases_held
from architecture.services.environments import current_environment
from architecture.services.executions import claim_execution, end_attempt
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.models import ChangeLogEntry
from elevata.jobs.services import Fenced
from loader.contract.refusals import Refusal
from loader.models import DatasetRun, LoadRun
from loader.services.loads.attempts import attempt_of, claim_with_leases
from loader.services.loads.broken_leases import shut_out_holder
from loader.services.loads.load_runs import request_load_run
from tests.architecture.services.test_reports import rename
from tests.architecture.world import customers, make_world
from tests.loader.factories import EnvironmentFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture(autouse=True)
def no_broker(monkeypatch):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "")


@pytest.fixture
def olga(db):
    return ensure_user(name="olga", roles=[Role.OPERATOR])


def claimed(run_id: str = "busy"):
    """Return the attempt, with its leases, of a run that a worker has started."""
    run = request_load_run(run_id=run_id).run
    work = claim_with_leases(run_pk=run.pk, worker="w1")
    attempt = attempt_of(work.run)
    attempt = type(attempt)(attempt.job_pk, attempt.number, work.leases)
    attempt.prepare(steps=work.planned().steps)
    return attempt


def first_lease() -> Lease:
    return leases_held(environment=current_environment()).first()


def break_lease(person, *, reason: str = "the machine is gone", lease: Lease | None = None) -> Lease:
    lease = lease or first_lease()
    return shut_out_holder(lease=lease, fence=lease.fence, user=person, reason=reason)


def test_broken_lease_fails_the_next_heartbeat_of_its_holder(airports, olga):
    attempt = claimed()
    assert attempt.heartbeat() == "running"
    break_lease(olga)
    with pytest.raises(Fenced):
        attempt.heartbeat()


def test_broken_lease_rejects_all_writes_of_its_holder(airports, olga):
    attempt = claimed()
    key = str(DatasetRun.objects.first().dataset_key)
    break_lease(olga)
    before = list(DatasetRun.objects.order_by("pk").values())
    for write in (
        lambda: attempt.enter("loading"),
        lambda: attempt.say("still here"),
        lambda: attempt.dataset(key, "running") or attempt.heartbeat(),
    ):
        with pytest.raises(Fenced):
            write()
    assert attempt.finish(status="succeeded") is None
    assert list(DatasetRun.objects.order_by("pk").values()) == before
    assert LoadRun.objects.get().status == "lost"


def test_broken_lease_is_recorded_with_user_and_reason(airports, olga):
    claimed()
    break_lease(olga)
    error = LoadRun.objects.get().error
    assert (error["code"], error["message"]) == (
        "LEASE_BROKEN",
        "olga broke one of its leases: the machine is gone",
    )
    entry = ChangeLogEntry.objects.get(subject_kind="lease")
    assert (entry.actor, entry.action, entry.reason) == ("olga", "broken", "the machine is gone")


def test_breaking_a_lease_frees_all_leases_of_the_run_and_raises_the_fence(airports, olga):
    claimed()
    lease = first_lease()
    assert break_lease(olga, lease=lease).fence == lease.fence + 1
    assert not leases_held(environment=current_environment()).exists()


def test_run_with_a_broken_lease_can_be_repeated(airports, olga):
    old = claimed()
    break_lease(olga)
    new = claimed()
    assert (new.number, new.heartbeat()) == (2, "running")
    with pytest.raises(Fenced):
        old.heartbeat()


def test_breaking_a_lease_requires_permission_and_a_reason(airports, olga):
    attempt = claimed()
    viewer = ensure_user(name="vera", roles=[Role.VIEWER])
    for person, reason in ((viewer, "why not"), (olga, "  ")):
        with pytest.raises(Refused):
            break_lease(person, reason=reason)
    assert attempt.heartbeat() == "running"


def test_breaking_a_lease_with_a_new_holder_is_refused(airports, olga):
    claimed()
    former_lease = first_lease()
    break_lease(olga)
    again = claimed()
    with pytest.raises(Refusal) as error:
        break_lease(olga, lease=former_lease)
    assert (error.value.code, "load run busy has it" in error.value.message) == ("LEASE_MOVED", True)
    assert again.heartbeat() == "running"


def test_a_free_lease_cannot_be_broken(airports, olga):
    lease = Lease.objects.create(environment=EnvironmentFactory(), dataset_key="a" * 32)
    with pytest.raises(Refusal, match="it is free"):
        break_lease(olga, lease=lease)


def test_broken_lease_rejects_all_writes_of_an_execution():
    world = make_world()
    customers(world.author)
    world.executed()
    rename(world, "full_name", "display_name")
    execution = world.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    break_lease(world.operator)
    with pytest.raises(Fenced):
        attempt.heartbeat()
    with pytest.raises(Fenced):
        attempt.step_finished(0, succeeded=True)
    assert end_attempt(attempt=attempt, wanted="succeeded") is None
    stored = Execution.objects.get(pk=execution.pk)
    assert (stored.status, stored.error["code"]) == ("lost", "LEASE_BROKEN")
