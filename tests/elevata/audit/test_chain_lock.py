"""Tests of sealing with concurrent writers, on PostgreSQL: sealing does not block them."""

import threading

import pytest
from django.db import connection, transaction

from elevata.audit.models import ChainHead
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_change
from elevata.audit.services.verification import verify_chain

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]


def change(name: str) -> None:
    record_change(action="changed", subject_kind="policy", subject_key=name, subject_name=name, after={"a": 1})


def test_a_writer_does_not_wait_for_a_seal_under_way() -> None:
    change("first")
    acquired, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            ChainHead.objects.select_for_update().get()
            acquired.set()
            done.wait(20)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert acquired.wait(20)
    change("second")
    waiting = verify_chain().unsealed
    done.set()
    holder.join()
    assert (waiting, chain.seal(), verify_chain().links) == (1, 1, 2)


def test_concurrent_writers_produce_one_intact_chain() -> None:
    """Check that ten threads with five changes each leave one chain without duplicate or missing links."""
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(5):
                change(f"{number}.{turn}")
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain.seal(wait=True)
    assert failures == []
    assert (verify_chain().problem, verify_chain().links, verify_chain().unsealed) == (None, 50, 0)
