"""Pages of users: own tokens and password, and the management of all users by administrators."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.accounts.models import PersonalToken, Preference, ServiceAccount
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import authenticate_token, create_token
from elevata.accounts.services.users import create_service_account, create_user, grant_role
from tests.elevata.web.forms import words
from tests.elevata.web.html import html_of
from tests.factories import TargetSchemaFactory

pytestmark = pytest.mark.django_db

TOKEN = {"do": "token", "token-label": "laptop", "token-scope": "read", "token-days": "30"}


def token_shown(page: str) -> str:
    return re.search(r'id="made-token">([^<]+)<', page)[1]


# --- own account ------------------------------------------------------------------------------


def test_a_token_is_shown_once(reader: Client, person: User):
    answer = reader.post("/me/", TOKEN)
    text = token_shown(html_of(answer))
    assert "no-store" in answer.headers["Cache-Control"]
    assert authenticate_token(text).is_read_only
    assert text not in html_of(reader.get("/me/"))


def test_tokens_are_listed_with_scope_and_last_use(reader: Client, person: User):
    _, text = create_token(user=person, name="nightly")
    assert "nightly" in words(html_of(reader.get("/me/")))
    assert "never" in words(html_of(reader.get("/me/")))
    authenticate_token(text)
    assert "never" not in words(html_of(reader.get("/me/")))


def test_a_token_is_revoked(reader: Client, person: User):
    token, _ = create_token(user=person)
    assert reader.post("/me/", {"do": "revoke", "token": token.digest[:32]}).url == "/me/"
    assert not PersonalToken.objects.exists()


@pytest.mark.parametrize(
    "wrong", [{"token-days": "0"}, {"token-days": "367"}, {"token-label": ""}, {"token-scope": "all"}]
)
def test_invalid_token_form_is_refused_and_creates_no_token(reader: Client, wrong: dict):
    assert reader.post("/me/", TOKEN | wrong).status_code == 422
    assert not PersonalToken.objects.exists()


def test_owner_creates_and_revokes_tokens_of_their_service_account(reader: Client, person: User):
    robot = create_service_account(name="robot", owner=person)
    text = token_shown(html_of(reader.post("/me/", TOKEN | {"token-account": "robot"})))
    token = authenticate_token(text)
    assert token.user == robot
    reader.post("/me/", {"do": "revoke", "token": token.digest[:32]})
    assert not PersonalToken.objects.exists()


def test_password_change_requires_the_old_password_and_a_strong_new_one(reader: Client, person: User):
    data = {"do": "password", "own-old": "analytical engine", "own-password": "difference engine"}
    assert reader.post("/me/", data | {"own-old": "wrong"}).status_code == 422
    assert reader.post("/me/", data | {"own-password": "1234"}).status_code == 422
    assert reader.post("/me/", data).url == "/me/"
    person.refresh_from_db()
    assert person.check_password("difference engine")
    assert reader.get("/me/").status_code == 200


def test_password_change_ends_other_sessions(reader: Client, person: User):
    elsewhere = Client()
    elsewhere.force_login(person)
    reader.post("/me/", {"do": "password", "own-old": "analytical engine", "own-password": "difference engine"})
    assert elsewhere.get("/me/").status_code == 302


def test_own_page_lists_permissions_with_their_place(reader: Client, person: User):
    grant_role(user=person, role="editor", layer="raw")
    assert "editor layer raw Changes metadata." in words(html_of(reader.get("/me/")))


def test_own_page_without_a_role_refers_to_an_administrator(nobody: Client):
    assert "Ask an administrator." in words(html_of(nobody.get("/me/")))


@pytest.mark.parametrize("contact", ["", "data-platform@example.org"])
def test_pages_without_a_role_show_the_contact_and_not_the_user_name(
    nobody: Client, person: User, settings, contact: str
):
    settings.CONTACT = contact
    for address in ("/", "/datasets/", "/changes/", "/datasets/00000000-0000-0000-0000-000000000000/"):
        answer = nobody.get(address)
        assert answer.status_code == 403
        text = words(html_of(answer))
        assert "This account has no role" in text
        assert f"Ask {contact or 'an administrator of this installation'} for a role" in text
        assert not re.search(rf"\b{person.username}\b", text)


def test_own_page_without_a_role_shows_nothing_of_the_installation(nobody: Client):
    text = words(html_of(nobody.get("/me/")))
    for word in ("Datasets", "Inbox", "Notices", "worker"):
        assert word not in text
    assert "Sign out" in text


# --- management --------------------------------------------------------------------------------


def test_new_user_form_creates_a_user_with_roles(operator: Client):
    data = {"name": "grace", "password": "analytical engine", "role_editor": "on", "role_viewer": "on"}
    assert operator.post("/new-user/", data).url == "/users/grace/"
    assert roles_of(User.objects.get(username="grace")) == {Role.EDITOR, Role.VIEWER}


def test_new_user_form_creates_a_service_account(operator: Client, person: User):
    operator.post("/new-user/", {"name": "robot", "owner": "ada", "role_operator": "on"})
    assert ServiceAccount.objects.get().owner == person
    assert "service account of ada" in words(html_of(operator.get("/users/")))


@pytest.fixture
def many_users(person: User) -> list[str]:
    """Return the names of 75 users in order; they are stored in reverse order."""
    names = [f"person-{number:02}" for number in range(75)]
    User.objects.bulk_create(User(username=name) for name in reversed(names))
    return names


def listed_names(client: Client, query: str = "") -> list[str]:
    return re.findall(r'class="name" href="/users/([^/]+)/"', html_of(client.get(f"/users/{query}")))


def test_user_list_is_sorted_by_name_and_paged(operator: Client, many_users: list[str]):
    assert listed_names(operator) == ["ada", "eve", *many_users[:48]]
    assert listed_names(operator, "?page=2") == many_users[48:]


@pytest.mark.parametrize("query", ["?q=GRA", "?role=approver", "?active=false", "?q=gra&role=approver&active=false"])
def test_user_list_filters_by_name_role_and_state(operator: Client, person: User, query: str):
    grace = create_user(name="grace", roles=[Role.APPROVER])
    User.objects.filter(pk=grace.pk).update(is_active=False)
    assert listed_names(operator, query) == ["grace"]


def test_user_list_without_matches_shows_a_message(operator: Client):
    assert "No users match these filters." in words(html_of(operator.get("/users/?q=nobody")))


def test_user_list_shows_at_most_five_locks_and_their_total(operator: Client):
    for number in range(7):
        for _ in range(5):
            Client().post("/sign-in/", {"username": f"guess/{number}", "password": "wrong"})
    text = words(html_of(operator.get("/users/")))
    assert text.count("is locked after too many wrong passwords") == 5
    assert "7 locks in total" in text


def test_owner_choices_of_a_service_account_contain_no_service_account(operator: Client, person: User):
    create_service_account(name="robot", owner=person)
    offered = re.findall(r'<option value="([^"]+)"></option>', html_of(operator.get("/new-user/")))
    assert offered == ["ada", "eve"]


@pytest.mark.parametrize(
    "data",
    [
        {"name": "ada"},
        {"name": "a b"},
        {"name": ""},
        {"name": "robot", "owner": "nobody"},
        {"name": "robot", "owner": "ada", "password": "analytical engine"},
        {"name": "grace", "password": "1234"},
    ],
)
def test_new_user_form_refuses_invalid_input(operator: Client, person: User, data: dict):
    assert operator.post("/new-user/", data).status_code == 422
    assert User.objects.count() == 2


def test_user_page_replaces_roles(operator: Client, person: User):
    operator.post("/users/ada/", {"do": "roles", "roles-role_approver": "on"})
    assert roles_of(person) == {Role.APPROVER}
    operator.post("/users/ada/", {"do": "roles"})
    assert roles_of(person) == frozenset()


def test_user_page_grants_and_revokes_a_role_for_a_place(operator: Client, person: User):
    TargetSchemaFactory(name="sales", layer="bizcore")
    operator.post("/users/ada/", {"do": "grant", "grant-role": "editor", "grant-place": "schema:sales"})
    grant = person.role_grants.get()
    assert str(grant) == "editor for schema sales"
    operator.post("/users/ada/", {"do": "ungrant", "grant": grant.pk})
    assert not person.role_grants.exists()


def test_user_page_refuses_a_grant_for_an_unknown_place(operator: Client, person: User):
    data = {"do": "grant", "grant-role": "editor", "grant-place": "schema:nowhere"}
    assert operator.post("/users/ada/", data).status_code == 422


def test_user_page_cannot_revoke_a_grant_of_another_user(operator: Client, person: User, starter: User):
    theirs = grant_role(user=starter, role="editor", layer="raw")
    assert operator.post("/users/ada/", {"do": "ungrant", "grant": theirs.pk}).status_code == 404


def test_user_page_deactivates_and_reactivates_a_user(operator: Client, reader: Client, person: User):
    operator.post("/users/ada/", {"do": "out"})
    assert reader.get("/").status_code == 302
    operator.post("/users/ada/", {"do": "in"})
    person.refresh_from_db()
    assert person.is_active


def test_administrator_cannot_deactivate_themselves(operator: Client, starter: User):
    operator.post("/users/eve/", {"do": "out"})
    starter.refresh_from_db()
    assert starter.is_active


def test_administrator_revokes_a_token_of_another_user(operator: Client, person: User):
    token, _ = create_token(user=person)
    operator.post("/users/ada/", {"do": "revoke", "token": token.digest[:32]})
    assert not PersonalToken.objects.exists()


def test_a_locked_name_is_unlocked(operator: Client, person: User):
    for _ in range(5):
        Client().post("/sign-in/", {"username": "ada", "password": "wrong"})
    assert "locked until" in words(html_of(operator.get("/users/")))
    operator.post("/users/ada/", {"do": "unlock"})
    assert "locked until" not in words(html_of(operator.get("/users/")))


def test_unknown_form_action_returns_404(operator: Client, person: User):
    assert operator.post("/users/ada/", {"do": "crown"}).status_code == 404
    assert operator.post("/me/", {}).status_code == 404


def test_administrator_can_neither_see_nor_send_the_token_form_of_another_user(operator: Client, person: User):
    assert 'value="token"' not in html_of(operator.get("/users/ada/"))
    data = {"do": "token", "token-label": "x", "token-scope": "write", "token-days": "1"}
    assert operator.post("/users/ada/", data).status_code == 404
    assert not PersonalToken.objects.exists()


def test_administrator_cannot_change_owner_email_or_password_of_a_service_account(operator: Client, person: User):
    robot = create_service_account(name="robot", owner=person)
    for change in ({"owner": "eve"}, {"email": "eve@example.org"}, {"password": "analytical engine"}):
        answer = operator.patch("/api/v1/users/robot/", change, content_type="application/json")
        assert answer.status_code == 400
    robot.refresh_from_db()
    assert (robot.service_account.owner, robot.email, robot.has_usable_password()) == (person, "", False)


# --- time zone -------------------------------------------------------------------------------------


def test_chosen_time_zone_is_stored_and_used_after_the_next_sign_in(reader: Client):
    assert reader.post("/me/", {"do": "zone", "own-time_zone": "Europe/Berlin"}).status_code == 302
    assert 'data-zone="Europe/Berlin"' in html_of(reader.get("/me/"))
    again = Client()
    again.force_login(Preference.objects.get().user)
    assert 'data-zone="Europe/Berlin"' in html_of(again.get("/me/"))


def test_unknown_time_zone_is_refused(reader: Client):
    answer = reader.post("/me/", {"do": "zone", "own-time_zone": "Mars/Olympus"})
    assert answer.status_code == 422
    assert "Is no time zone" in html_of(answer)
    assert not Preference.objects.exists()
