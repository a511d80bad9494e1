"""Row rules of loads: those edited during the preparation, and those of an older release."""

from collections.abc import Callable

import pytest

from elevata.accounts.actors import acting_as
from loader.models import LoadRun
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from tests.architecture.older_states import store_as_older_release
from tests.architecture.services.four_eyes.edits import SetCheck, SetSource
from tests.architecture.services.four_eyes.test_property import Shop, make_shop
from tests.architecture.services.four_eyes.warehouse import Runner
from tests.architecture.world import committed

pytestmark = [pytest.mark.django_db, pytest.mark.embedded_only]


@pytest.mark.takes(seconds=10)
@pytest.mark.parametrize("change", [SetCheck(1, "quarantine", "1"), SetSource("faulty_rows", "quarantine")])
def test_load_refuses_rules_edited_after_their_comparison(change: Callable) -> None:
    shop = make_shop()
    runner = Runner(shop.warehouse, meanwhile={"observe": change.do})
    run = load(shop, runner)
    assert (run.error["code"], runner.loads) == ("RULES_MOVED", [])


@pytest.mark.takes(seconds=10)
def test_first_load_after_an_upgrade_records_its_rules() -> None:
    shop = make_shop()
    with acting_as(shop.people[0].user):
        SetCheck(1, "quarantine", "1").do()
    committed()
    store_as_older_release()
    runner = Runner(shop.warehouse)
    assert (load(shop, runner).status, len(runner.loads)) == ("succeeded", 1)
    with acting_as(shop.people[0].user):
        SetCheck(1, "warn", "1").do()
    committed()
    run = load(shop, runner)
    assert (run.status, run.error["code"], len(runner.loads)) == ("blocked", "BLOCKED", 1)


def load(shop: Shop, runner: Runner) -> LoadRun:
    requested = request_load_run(user=shop.people[0].user, wake_worker=False)
    return perform_load_run(requested.run.pk, worker="w1", runner=runner)
