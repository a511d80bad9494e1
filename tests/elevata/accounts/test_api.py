"""Management of users by REST, and policies of environments."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from architecture.models import Environment
from elevata.accounts import api
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user, lock_user, set_roles
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetSchema
from tests.elevata.api.requests import get, send

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db) -> Client:
    client = Client()
    client.force_login(ensure_user(name="root", roles=[Role.ADMIN]))
    return client


def create(admin: Client, **body: Any) -> dict[str, Any]:
    answer = send(admin, "post", "users/", body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_new_user_gets_roles_everywhere_and_for_one_place(admin: Client):
    TargetSchema.objects.create(name="mart", layer="serving")
    grants = [{"role": "editor", "schema": "mart"}, {"role": "operator", "environment": "test"}]
    ada = create(admin, name="ada", roles=["viewer"], grants=grants, changelog_message="New in the team")
    assert ada["roles"] == ["viewer"]
    assert {(grant["role"], grant["schema"], grant["environment"]) for grant in ada["grants"]} == {
        ("editor", "mart", ""),
        ("operator", "", "test"),
    }
    assert set(ChangeLogEntry.objects.filter(subject_key="ada").values_list("reason", flat=True)) == {"New in the team"}
    assert not get_user_model().objects.get(username="ada").has_usable_password()


def test_new_service_account_stores_its_owner(admin: Client):
    create(admin, name="ada", roles=["editor"])
    assert create(admin, name="robot", owner="ada")["owner"] == "ada"


def test_patch_replaces_the_whole_list_of_grants(admin: Client):
    create(admin, name="ada", grants=[{"role": "editor", "layer": "serving"}, {"role": "viewer", "layer": "raw"}])
    account = send(admin, "patch", "users/ada/", {"grants": [{"role": "viewer", "layer": "raw"}]}).json()
    assert [(grant["role"], grant["layer"]) for grant in account["grants"]] == [("viewer", "raw")]


def test_user_list_filters_inactive_users(admin: Client):
    create(admin, name="ada", roles=["editor"])
    send(admin, "patch", "users/ada/", {"active": False})
    assert [user["name"] for user in get(admin, "users/?active=false")["results"]] == ["ada"]


def test_patch_requires_the_current_etag_of_the_user(admin: Client):
    create(admin, name="ada", roles=["viewer"])
    headers = {"If-Match": admin.get("/api/v1/users/ada/").headers["ETag"]}
    assert send(admin, "patch", "users/ada/", {"roles": ["editor"]}, **headers).status_code == 200
    assert send(admin, "patch", "users/ada/", {"roles": ["admin"]}, **headers).status_code == 412


@pytest.mark.parametrize("tag", [True, False])
def test_patch_refuses_to_overwrite_a_concurrent_role_change(admin: Client, monkeypatch: pytest.MonkeyPatch, tag: bool):
    create(admin, name="ada", roles=["viewer"])
    headers = {"If-Match": admin.get("/api/v1/users/ada/").headers["ETag"]} if tag else {}

    def lock_after_change(user: Any) -> Any:
        """Take a role away before the lock is acquired."""
        monkeypatch.undo()
        set_roles(user=user, roles=[])
        return lock_user(user)

    monkeypatch.setattr(api, "lock_user", lock_after_change)
    answer = send(admin, "patch", "users/ada/", {"roles": ["viewer", "admin"]}, **headers)
    assert (answer.status_code, answer.json()["code"]) == (412, "stale_version")
    assert "admin" not in get(admin, "users/ada/")["roles"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "eve", "is_superuser": True}, "is_superuser"),
        ({"name": "eve", "roles": ["king"]}, "roles"),
        ({"name": "eve", "grants": [{"role": "editor"}]}, "place"),
        ({"name": "eve", "grants": [{"layer": "raw"}]}, "grants"),
        ({"name": "eve", "grants": [{"role": "editor", "schema": "nowhere"}]}, "schema"),
        ({"name": "eve", "owner": "nobody"}, "owner"),
        ({"name": "a b/c"}, "name"),
    ],
)
def test_invalid_new_user_is_refused_with_its_field(admin: Client, body: dict, field: str):
    answer = send(admin, "post", "users/", body)
    assert (answer.status_code in (400, 422), list(answer.json()["errors"])) == (True, [field])
    assert not get_user_model().objects.filter(username=body["name"]).exists()


def test_users_without_permission_cannot_list_or_change_users(reader: Client, admin: Client):
    assert reader.get("/api/v1/users/").status_code == 403
    assert send(reader, "patch", "users/root/", {"roles": []}).status_code == 403


# --- policies --------------------------------------------------------------------------------------


def test_policy_change_requires_the_current_etag(admin: Client):
    (environment,) = get(admin, "environments/")["results"]
    path = f"environments/{environment['name']}/"
    body = {"policies": {"approvals": {"safe": {"count": 2}}}}
    assert send(admin, "patch", path, body).status_code == 428
    headers = {"If-Match": admin.get(f"/api/v1/{path}").headers["ETag"]}
    answer = send(admin, "patch", path, body, **headers).json()
    assert (answer["policy"]["approvals"]["safe"]["count"], answer["version"]) == (2, 2)
    assert send(admin, "patch", path, body, **headers).status_code == 412
    assert ChangeLogEntry.objects.filter(subject_kind="policy").exists()


def test_invalid_policy_is_refused_with_its_field(admin: Client):
    (environment,) = get(admin, "environments/")["results"]
    body = {"policies": {"severities": {"DROP_TABLE": "maybe"}}}
    answer = send(admin, "patch", f"environments/{environment['name']}/", body, **{"If-Match": "*"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["severities.DROP_TABLE"])
    assert Environment.objects.get().policies == {}
