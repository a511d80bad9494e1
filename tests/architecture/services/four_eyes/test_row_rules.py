"""Rules that decide rows, edited while a load is prepared: the load does not run them."""

from collections.abc import Callable

import pytest

from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from tests.architecture.services.four_eyes.edits import SetCheck, SetSource
from tests.architecture.services.four_eyes.test_property import make_shop
from tests.architecture.services.four_eyes.warehouse import Runner

pytestmark = [pytest.mark.django_db, pytest.mark.embedded_only]


@pytest.mark.takes(seconds=10)
@pytest.mark.parametrize("change", [SetCheck(1, "quarantine", "1"), SetSource("faulty_rows", "quarantine")])
def test_a_load_refuses_rules_that_were_edited_after_they_were_compared(change: Callable) -> None:
    shop = make_shop()
    requested = request_load_run(user=shop.people[0].user, wake_worker=False)
    runner = Runner(shop.warehouse, meanwhile={"observe": change.do})
    run = perform_load_run(run_pk=requested.run.pk, worker="w1", runner=runner)
    assert (run.error["code"], runner.loads) == ("RULES_MOVED", [])
