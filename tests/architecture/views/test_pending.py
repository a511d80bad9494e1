"""Changes that are not in the warehouse, on the pages of datasets and schemas and on home."""

import pytest

from architecture.selectors import inbox, pending
from elevata.accounts.permissions import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_target_column
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, committed, person
from tests.elevata.web.pages import read, signed_in, words

pytestmark = pytest.mark.django_db


def shown(world: World, query: str = "", by=None) -> str:
    committed()
    return words(read(signed_in(by or world.author), f"/pending-changes/{query}"))


def test_nothing_is_said_while_the_warehouse_is_as_described(world: World):
    assert shown(world) == ""


def test_a_rename_of_a_column_and_its_history_is_one_change(world: World):
    rename(world, "full_name", "display_name")
    text = shown(world)
    assert "1 change not in the warehouse" in text
    assert "rename_column rawcore.rc_crm_customer full_name → display_name" in text
    assert "Create report" in text


@pytest.mark.parametrize(("schema", "count"), [("rawcore", 1), ("serving", 0)])
def test_a_schema_has_its_own_changes(world: World, schema: str, count: int):
    rename(world, "full_name", "display_name")
    assert ("1 change not" in shown(world, f"?schema={schema}")) == bool(count)


def test_the_page_of_a_history_shows_the_changes_of_its_dataset(world: World):
    rename(world, "full_name", "display_name")
    history = TargetDataset.objects.get(history_of__isnull=False)
    assert "1 change not in the warehouse" in shown(world, f"?dataset={history.key}")


def test_a_second_editor_learns_whose_edits_meet_in_the_report(world: World):
    rename(world, "full_name", "display_name")
    eve = person("eve", Role.EDITOR)
    with acting_as(eve):
        dataset = TargetDataset.objects.get(historize=True)
        create_target_column(dataset=dataset, name="lid", type="integer", inputs=[])
    assert "Edits by ada are among them" in shown(world, by=eve)
    report = world.report()
    page = words(read(signed_in(eve), f"/reports/{report.report_id}/"))
    assert "Edits of several users meet in this report: ada, eve." in page
    assert "Report of crm_customer" in shown(world, by=eve)


def test_who_only_reads_is_offered_no_report(world: World):
    rename(world, "full_name", "display_name")
    assert "Create report" not in shown(world, by=person("vera", Role.VIEWER))


def test_the_plan_is_computed_once_for_all_readers(world: World, django_assert_max_num_queries):
    rename(world, "full_name", "display_name")
    committed()
    pending.pending_operations(world.environment, inbox.signal(world.environment.pk))
    environment = world.environment
    with django_assert_max_num_queries(1):
        pending.pending_operations(environment, inbox.signal(environment.pk))
