"""Limits of a user's reads: number of unfinished reads, and of reads performed at the same time."""

import pytest
from django.contrib.auth.models import User

from elevata.accounts.models import ServiceAccount
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.jobs.registry import LANES, READS, next_work
from loader.contract.refusals import Refusal
from loader.models import ReadRequest
from loader.services.reads.read_requests import request_read
from tests.loader.airports import target


def reader(name: str = "vera") -> User:
    return ensure_user(name=name, roles=[Role.VIEWER])


def sample(user: User | None) -> ReadRequest:
    return request_read(kind="sample", dataset=target("rawcore.rc_air_airport"), user=user, wake_worker=False).read


def test_no_user_has_all_slots_of_reads():
    assert LANES[READS].of_user < LANES[READS].total


@pytest.mark.django_db
def test_user_without_an_active_read_is_served_first(airports):
    vera, willi, otto = (reader(name) for name in ("vera", "willi", "otto"))
    reads = {name: sample(user) for name, user in (("vera", vera), ("willi", willi), ("otto", otto))}
    assert next_work(lane=READS).pk == reads["vera"].pk
    assert next_work(lane=READS, busy={vera.pk: 1}).pk == reads["willi"].pk
    assert next_work(lane=READS, busy=dict.fromkeys((vera.pk, willi.pk, otto.pk), 1)).pk == reads["vera"].pk
    assert next_work(lane=READS, busy={vera.pk: 2, willi.pk: 1, otto.pk: 2}).pk == reads["willi"].pk
    assert next_work(lane=READS, busy=dict.fromkeys((vera.pk, willi.pk, otto.pk), 2)) is None


@pytest.mark.django_db
def test_unfinished_reads_of_a_user_and_their_accounts_are_bounded(airports, settings):
    settings.READS_PER_USER = 2
    user, program = reader(), reader("program")
    ServiceAccount.objects.create(user=program, owner=user)
    first = sample(user)
    sample(program)
    for account in (user, program):
        with pytest.raises(Refusal) as refused:
            sample(account)
        assert (refused.value.code, refused.value.status) == ("TOO_MANY_READS", 429)
    assert sample(reader("willi")).pk
    ReadRequest.objects.filter(pk=first.pk).update(status="succeeded")
    assert sample(user).pk


@pytest.mark.django_db(transaction=True)
@pytest.mark.embedded
def test_reads_requested_at_once_are_counted_one_by_one(airports, settings, in_threads):
    settings.READS_PER_USER = 2
    user = reader()

    def ask() -> int:
        try:
            return sample(user).pk
        except Refusal as refusal:
            return 0 if refusal.code == "TOO_MANY_READS" else -1

    assert sorted(map(bool, in_threads(*[ask] * 5))) == [False, False, False, True, True]
    assert ReadRequest.objects.count() == 2
