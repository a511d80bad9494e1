"""Tests of the access pages: users with a permission for an object, all permissions of a user, and granted roles."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.accounts.models import RoleGrant
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.accounts.services.users import create_service_account, ensure_user, grant_role
from loader.services.reads.read_permissions import may_read, may_read_sensitive
from metadata.models import System, TargetDataset, TargetSchema
from metadata.permissions import here, may_change, place_of_data
from metadata.selectors.access import access_of, actions_at, reach_of, sees_others, users_at
from metadata.services.datasets.targets import update_target_dataset
from tests.elevata.web.pages import downloaded, read, section, signed_in, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def users(airport: TargetDataset) -> dict[str, User]:
    """Create a user for each role everywhere and for each role in one place, a superuser and a service account."""
    people = {role.value: ensure_user(name=role.value, roles=[role]) for role in Role}
    for role, place in (
        ("editor", {"schema": "rawcore"}),
        ("approver", {"layer": "rawcore"}),
        ("operator", {"environment": "dev"}),
        ("steward", {"schema": "rawcore"}),
        ("steward", {"schema": "raw"}),
    ):
        name = f"{role}-{next(iter(place.values()))}"
        people[name] = ensure_user(name=name, roles=[])
        grant_role(user=people[name], role=role, **place)
    people["root"] = User.objects.create_superuser("root")
    people["program"] = create_service_account(name="program", owner=people["operator"], roles=["operator"])
    return people


def permitted(**checks: Callable[[User], bool]) -> dict[str, set[str]]:
    return {name: {user.username for user in User.objects.all() if check(user)} for name, check in checks.items()}


def listed(row: Any) -> dict[str, set[str]]:
    """Return the names of the users with access to an object, by action."""
    actions = actions_at(row)
    access = [access_of(user, actions) for user in users_at(actions)]
    return {
        action.name: {each.user.username for each in access if action in [cell.action for cell in each.permitted]}
        for action in actions
    }


def test_listed_access_agrees_with_the_permissions_of_services(users: dict[str, User], airport: TargetDataset):
    reports = lambda permission: lambda user: may(user, permission, place_of_data(airport))  # noqa: E731
    loads = {"load": lambda user: may(user, Permission.START_LOAD, here)}
    data = {"read": lambda user: may_read(user, airport), "unmask": lambda user: may_read_sensitive(user, airport)}
    assert listed(airport) == permitted(
        **data,
        edit=lambda user: may_change(user, airport),
        approve=reports(Permission.APPROVE_REPORTS),
        execute=reports(Permission.EXECUTE_REPORTS),
        **loads,
    )
    system = System.objects.get()
    assert listed(system) == permitted(
        read=lambda user: may_read(user, system),
        unmask=lambda user: may_read_sensitive(user, system),
        edit=lambda user: may_change(user, system),
        **loads,
    )


def test_access_is_filtered_by_one_action(users: dict[str, User], airport: TargetDataset):
    names = {user.username for user in users_at(actions_at(airport), "unmask")}
    assert names == {"steward", "steward-rawcore"}


@pytest.mark.parametrize(
    ("name", "is_shown"),
    [("admin", True), ("root", True), ("steward", True), ("steward-rawcore", True), ("steward-raw", False)],
)
def test_access_of_others_is_shown_to_administrators_and_stewards_of_the_place(
    users: dict[str, User], airport: TargetDataset, name: str, is_shown: bool
):
    assert sees_others(users[name], airport) is is_shown
    assert sees_others(users["viewer"], airport) is False


def test_the_page_names_roles_places_and_masked_columns(users: dict[str, User], airport: TargetDataset):
    column = airport.columns.get(name="name")
    column.pii = True
    column.save()
    html = read(signed_in(users["admin"]), f"/datasets/{airport.key}/access/")
    assert "steward-rawcore steward schema rawcore unmasked steward schema rawcore" in words(html)
    assert "operator-dev operator environment dev masked" in words(html)
    assert "program service account of operator" in words(html)
    assert "name personal" in words(html)
    own = words(read(signed_in(users["viewer"]), f"/datasets/{airport.key}/access/"))
    assert "Your access here" in own
    assert "steward-rawcore" not in own
    assert "Granting a role needs the admin role" in read(signed_in(users["viewer"]), "/systems/air/access/")


def test_access_is_downloaded_by_user_and_action(users: dict[str, User], airport: TargetDataset):
    address = f"/datasets/{airport.key}/access/?format=csv"
    rows = {row["user"]: row for row in downloaded(signed_in(users["admin"]), address)}
    steward, program = rows["steward-rawcore"], rows["program"]
    assert steward["read data"] == steward["sensitive values"] == "steward (schema rawcore)"
    assert (program["owner"], program["sensitive values"], program["edit metadata"]) == ("operator", "masked", "")
    assert [row["user"] for row in downloaded(signed_in(users["viewer"]), address)] == ["viewer"]


def test_the_owner_of_a_dataset_sees_its_access(users: dict[str, User], airport: TargetDataset):
    update_target_dataset(dataset=airport, expected_version=airport.version, owner="viewer")
    assert sees_others(users["viewer"], TargetDataset.objects.get(pk=airport.pk))
    assert "steward-rawcore" in words(read(signed_in(users["viewer"]), f"/datasets/{airport.key}/access/"))


def test_access_page_grants_a_role_for_its_place(users: dict[str, User], airport: TargetDataset):
    admin, address = signed_in(users["admin"]), "/schemas/rawcore/access/"
    sent = {"do": "grant", "grant-user": "viewer", "grant-role": "steward", "grant-place": "schema:rawcore"}
    assert admin.post(address, sent).status_code == 302
    assert RoleGrant.objects.get(user=users["viewer"]).schema == "rawcore"
    for change, message in (
        ({"grant-user": "nobody"}, "there is no user with this name"),
        ({"grant-place": "schema:raw"}, "Select a valid choice"),
        ({"grant-user": "program", "grant-role": "approver"}, "service account"),
    ):
        answer = admin.post(address, sent | change)
        assert answer.status_code == 422
        assert message.lower() in answer.content.decode().lower()
    assert signed_in(users["steward"]).post(address, sent).status_code == 403


def test_user_link_preselects_the_place_of_a_new_role(users: dict[str, User]):
    html = read(signed_in(users["admin"]), "/users/viewer/access/")
    assert "/users/viewer/?place=schema:rawcore#grants-head" in html
    form = section(read(signed_in(users["admin"]), "/users/viewer/?place=schema:rawcore"), "grants-head")
    assert '<option value="schema:rawcore" selected>' in form


def test_reach_lists_permitted_actions_by_place(users: dict[str, User]):
    reach = reach_of(users["steward-rawcore"].pk)
    may_do = {place.name: [cell.action.name for cell in place.access.permitted] for place in reach.places}
    assert may_do == {"": [], **{name: [] for name in TargetSchema.objects.values_list("name", flat=True)}} | {
        "rawcore": ["read", "unmask"]
    }
    operator = reach_of(users["operator-dev"].pk)
    assert {cell.action.name for cell in dict(operator.environments)["dev"].permitted} == {"execute", "load"}
    assert all(place.access.masked for place in operator.places)
    assert [cell.action.name for cell in reach_of(users["admin"].pk).manages.permitted] == ["users", "webhooks"]
    assert may(users["admin"], Permission.MANAGE_USERS, Place())


def test_api_filters_and_pages_access_and_shows_viewers_only_their_own(users: dict[str, User], airport: TargetDataset):
    client = signed_in(users["admin"])

    def got(client: Client, path: str, status: int = 200) -> Any:
        answer = client.get(f"/api/v1/{path}")
        assert answer.status_code == status, answer.content
        return answer.json()

    page = got(client, f"datasets/{airport.key}/access/?may=unmask&page_size=1&page=2")
    assert page["count"] == 2
    assert page["results"] == [
        {
            "user": "steward-rawcore",
            "owner": None,
            "masked": False,
            "permitted": [
                {"action": name, "grounds": [{"by": "steward", "place": "schema rawcore"}]}
                for name in ("read", "unmask")
            ],
        }
    ]
    viewer = signed_in(users["viewer"])
    assert [each["user"] for each in got(viewer, "schemas/rawcore/access/")["results"]] == ["viewer"]
    own = got(viewer, "access/")
    assert own["user"] == "viewer"
    assert own == got(client, "users/viewer/access/")
    got(viewer, "users/admin/access/", 403)
    got(client, "systems/air/access/?may=nothing", 400)
