"""Inbox: tasks by user, their number in the top bar, and removal of finished tasks."""

import re

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from architecture.models import ChangeReport, Execution
from architecture.selectors.inbox import tasks_of, waiting_for
from architecture.services import reports
from architecture.services.approvals import approve, reject
from architecture.services.previews import make_preview
from architecture.services.report_basis import gather
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Role
from elevata.accounts.sign_in import AccountBackend
from metadata.domain.scope import Scope
from tests.architecture.world import Killed, World, person
from tests.elevata.web.pages import address, change, needing, read, rename, signed_in, words
from tests.loader.factories import EnvironmentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def renamed(world: World) -> ChangeReport:
    """Return an open report of a rename by Ada that needs one approval."""
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    return world.report()


def tasks_of_user(user: object) -> list[tuple[str, int]]:
    return [(task.ask, task.pk) for task in waiting_for(user)]


def badge(html: str) -> str:
    """Return the number in the top bar; empty without tasks."""
    match = re.search(r'class="inbox-count">(\d+)', html)
    return match[1] if match else ""


# --- no tasks --------------------------------------------------------------------------------


def test_empty_inbox_shows_a_hint(db: None):
    EnvironmentFactory()
    bob = person("bob", Role.APPROVER)
    html = read(signed_in(bob), "/inbox/")
    assert "Nothing to do" in html
    assert "Reports that need your decision" in words(html)
    assert badge(html) == ""


def test_inbox_of_a_viewer_shows_a_hint_and_queries_only_permissions(
    viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    assert "for editors, approvers and operators" in read(viewer, "/inbox/")
    vera = AccountBackend().get_user(person("vera", Role.VIEWER).pk)
    with django_assert_num_queries(2):  # permissions of the viewer
        assert tasks_of(vera).count == 0


# --- tasks by user ---------------------------------------------------------------------------


def test_home_shows_the_number_of_tasks_and_links_a_single_report(renamed: ChangeReport):
    html = read(signed_in(person("carla", Role.APPROVER)), "/")
    assert badge(html) == "1"
    assert f'<a href="{address(renamed)}">1 waiting for you</a>' in html


def test_open_report_is_in_the_inbox_of_approvers(world: World, renamed: ChangeReport):
    person("carla", Role.APPROVER)
    html = read(signed_in(world.approver), "/inbox/")
    text = words(html)
    assert badge(html) == "1"
    assert "To decide" in text
    assert "Approve or reject it: needs 1 approver." in text
    assert "you, carla" in text
    assert f'href="{address(renamed)}#approvals"' in html


def test_author_sees_the_awaited_approvers_and_no_task(world: World, renamed: ChangeReport):
    html = read(signed_in(world.author), "/inbox/")
    assert badge(html) == ""
    assert re.search(r"Waiting for others.*Needs 1 approver\. bob ", words(html))


def test_approved_report_is_in_the_inbox_of_operators(world: World, renamed: ChangeReport):
    approve(report=renamed, user=world.approver)
    assert tasks_of_user(world.approver) == []
    assert tasks_of_user(world.operator) == [("execute", renamed.pk)]
    text = words(read(signed_in(world.operator), "/inbox/"))
    assert "Approved by bob. Review the statements, then execute it." in text


def test_lost_execution_is_in_the_inbox_of_operators(world: World, renamed: ChangeReport):
    execution = world.queued()
    with pytest.raises(Killed):
        world.work(execution, dies_at=1)
    error = {"code": "WORKER_LOST", "message": "worker w1 went away"}
    Execution.objects.filter(pk=execution.pk).update(status="lost", error=error)
    html = read(signed_in(world.operator), "/inbox/")
    assert badge(html) == "1"
    assert f'href="/executions/{execution.pk}/"' in html
    assert "lost Worker w1 went away. Resume or abandon it." in words(html)


def test_executed_or_abandoned_report_leaves_the_inbox(world: World, renamed: ChangeReport):
    execution = world.executed()
    assert tasks_of_user(world.operator) == []
    Execution.objects.filter(pk=execution.pk).update(status="abandoned")
    assert tasks_of_user(world.operator) == []


def test_blocked_report_is_in_the_inbox_of_its_author_until_a_newer_one_exists(world: World):
    change(world, "full_name", type="string(10)")
    blocked = world.report()
    assert tasks_of_user(world.author) == [("repair", blocked.pk)]
    change(world, "full_name", type="string(60)")
    newer = world.report()
    assert newer.pk not in [pk for ask, pk in tasks_of_user(world.author) if ask != "others"]
    assert blocked.pk not in [pk for _, pk in tasks_of_user(world.author)]


def test_rejected_report_is_in_the_inbox_of_its_author_with_the_note(world: World, renamed: ChangeReport):
    reject(report=renamed, user=world.approver, note="Not before Monday.")
    assert tasks_of_user(world.approver) == []
    assert "bob rejected it: “Not before Monday.”" in words(read(signed_in(world.author), "/inbox/"))


def test_superseded_report_links_its_creator_to_the_newer_one(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    newer = world.report(by=world.operator)
    assert ("follow", renamed.pk) in tasks_of_user(world.author)
    text = words(read(signed_in(world.author), "/inbox/"))
    assert "olga created a newer report of the same scope." in text
    approve(report=newer, user=world.approver)
    make_preview(report=newer, user=world.operator)
    world.executed()
    assert ("follow", renamed.pk) not in tasks_of_user(world.author)


def test_superseded_report_is_not_in_the_inbox_of_the_creator_of_the_newer_one(world: World, renamed: ChangeReport):
    rename(world, "balance", "amount")
    newer = world.report()
    assert tasks_of_user(world.author) == [("others", newer.pk)]


# --- up-to-date tasks --------------------------------------------------------------------------


def test_outdated_report_moves_to_the_inbox_of_its_author_once_checked(world: World, renamed: ChangeReport):
    cache.clear()
    bob, ada = signed_in(world.approver), signed_in(world.author)
    assert "Checking reports" in read(bob, "/inbox/")
    rename(world, "balance", "amount")
    rows = read(bob, "/inbox/rows/")
    assert "Nothing to do" in rows
    assert 'id="inbox-link"' in rows
    assert badge(rows) == ""
    assert tasks_of_user(world.author) == [("renew", renamed.pk)]
    text = words(read(ada, "/inbox/"))
    assert "Outdated: recreate" in text
    assert "REPORT_STALE" in text


def test_inbox_gathers_the_current_state_once_for_all_reports(
    world: World, renamed: ChangeReport, monkeypatch: pytest.MonkeyPatch
):
    alone = world.report(Scope("dataset", "rawcore.rc_crm_customer", target_only=True))
    cache.clear()
    gathered = []
    monkeypatch.setattr(reports, "gather", lambda **arguments: gathered.append(arguments) or gather(**arguments))
    rename(world, "balance", "amount")
    assert "Nothing to do" in read(signed_in(world.approver), "/inbox/rows/")
    assert len(gathered) == 1
    assert tasks_of_user(world.author) == [("renew", renamed.pk), ("renew", alone.pk)]


def test_inbox_poll_returns_204_while_nothing_changes(world: World, renamed: ChangeReport):
    bob = signed_in(world.approver)
    version = re.search(r"rows/\?seen=(\w+)", read(bob, "/inbox/rows/"))[1]
    assert bob.get(f"/inbox/rows/?seen={version}").status_code == 204
    approve(report=renamed, user=person("carla", Role.APPROVER))
    assert bob.get(f"/inbox/rows/?seen={version}").status_code == 200


def test_inbox_count_runs_one_query_without_tasks_and_two_with_a_task(
    world: World, renamed: ChangeReport, django_assert_num_queries: DjangoAssertNumQueries
):
    bob, olga = (AccountBackend().get_user(user.pk) for user in (world.approver, world.operator))
    for user in (bob, olga):
        may_somewhere(user, "accounts.manage_users")  # every page checks permissions
    with django_assert_num_queries(2):
        assert tasks_of(bob).count == 1
    with django_assert_num_queries(1):
        assert tasks_of(olga).count == 0


def test_home_links_to_the_only_report_to_decide(world: World, renamed: ChangeReport):
    assert f'href="/reports/{renamed.report_id}/"' in read(signed_in(world.approver), "/")
    assert tasks_of(world.operator).report_id is None
