"""Pending changes on the pages of datasets and schemas and on the home page."""

import pytest

from architecture.selectors import outdated_reports, pending
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_target_column
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, committed, person
from tests.elevata.web.pages import read, signed_in, words

pytestmark = pytest.mark.django_db


def pending_text(world: World, query: str = "", by=None) -> str:
    committed()
    return words(read(signed_in(by or world.author), f"/pending-changes/{query}"))


def test_pending_changes_are_empty_while_the_warehouse_matches_the_metadata(world: World):
    assert pending_text(world) == ""


def test_pending_rename_of_a_column_and_its_history_is_one_change(world: World):
    rename(world, "full_name", "display_name")
    text = pending_text(world)
    assert "1 change not in the warehouse" in text
    assert "rename_column rawcore.rc_crm_customer full_name → display_name" in text
    assert "Create report" in text


@pytest.mark.parametrize(("schema", "count"), [("rawcore", 1), ("serving", 0)])
def test_pending_changes_are_limited_to_the_schema(world: World, schema: str, count: int):
    rename(world, "full_name", "display_name")
    assert ("1 change not" in pending_text(world, f"?schema={schema}")) == bool(count)


def test_pending_changes_and_report_name_all_editors(world: World):
    rename(world, "full_name", "display_name")
    eve = person("eve", Role.EDITOR)
    with acting_as(eve):
        dataset = TargetDataset.objects.get(historize=True)
        create_target_column(dataset=dataset, name="lid", type="integer", inputs=[])
    assert "Edits by ada are among them" in pending_text(world, by=eve)
    report = world.report()
    page = words(read(signed_in(eve), f"/reports/{report.report_id}/"))
    assert "Edits of several users meet in this report: ada, eve." in page
    assert "Report of crm_customer" in pending_text(world, by=eve)


def test_pending_changes_offer_no_report_to_a_viewer(world: World):
    rename(world, "full_name", "display_name")
    assert "Create report" not in pending_text(world, by=person("vera", Role.VIEWER))


def test_pending_changes_are_computed_once_for_all_users(world: World, django_assert_max_num_queries):
    rename(world, "full_name", "display_name")
    committed()
    pending.pending_operations(world.environment, outdated_reports.signal(world.environment.pk))
    environment = world.environment
    with django_assert_max_num_queries(1):
        pending.pending_operations(environment, outdated_reports.signal(environment.pk))
