"""Tests that no actor can act as another user, by token, program, password or account, and of notifications."""

import pytest
from django.contrib.auth.models import Group, User

from elevata.accounts.access import holders
from elevata.accounts.actors import SYSTEM_KIND, Actor, acting_as
from elevata.accounts.models import PersonalToken, TemporaryPassword
from elevata.accounts.permissions import may, may_somewhere
from elevata.accounts.places import Place
from elevata.accounts.roles import ROLES, USERS_ONLY, Permission, Role
from elevata.accounts.services.tokens import create_token, revoke_token, revoke_tokens
from elevata.accounts.services.users import (
    activate_user,
    create_service_account,
    create_user,
    deactivate_user,
    ensure_user,
    grant_role,
    link_identity,
    set_password,
    set_roles,
)
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from elevata.notifications.models import Event, Notice

pytestmark = pytest.mark.django_db
SHELL = Actor("system", SYSTEM_KIND, shell_user="deploy")


@pytest.fixture
def root() -> User:
    return ensure_user(name="root", roles=["admin"])


@pytest.fixture
def rita() -> User:
    """Return a second administrator."""
    return ensure_user(name="rita", roles=["admin"])


@pytest.fixture
def ada() -> User:
    return ensure_user(name="ada", roles=["editor", "approver"])


def assert_refused(code: str, call, **arguments: object) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        call(**arguments)
    assert caught.value.code == code
    return caught.value


def notified(kind: str = "account.changed") -> list[tuple[str, str]]:
    """Return the recipients of the newest event of a kind with its title."""
    event = Event.objects.filter(kind=kind).first()
    return [] if event is None else sorted((notice.user.username, event.title) for notice in event_notices(event))


def event_notices(event: Event) -> list[Notice]:
    return list(Notice.objects.filter(event=event).select_related("user"))


# --- tokens --------------------------------------------------------------------------------------


def test_administrator_cannot_create_a_token_for_another_user(root: User, ada: User):
    with acting_as(root):
        assert_refused("not_permitted", create_token, user=ada)
    assert not PersonalToken.objects.exists()


def test_administrator_cannot_create_a_token_for_the_service_account_of_another_user(root: User, ada: User):
    robot = create_service_account(name="robot", owner=ada)
    with acting_as(root):
        assert_refused("not_permitted", create_token, user=robot)


def test_an_administrator_revokes_anothers_tokens(root: User, ada: User):
    with acting_as(ada):
        token, _ = create_token(user=ada)
        create_token(user=ada, name="second")
    with acting_as(root):
        revoke_token(token=token)
        assert revoke_tokens(user=ada) == 1


def test_token_cannot_create_a_token(ada: User):
    """Check that a token cannot create a token, because a stolen token could then be renewed without end."""
    with acting_as(ada, by_token=True):
        assert_refused("not_permitted", create_token, user=ada)


def test_token_created_in_the_shell_notifies_its_user_and_the_administrators(root: User, ada: User):
    with acting_as(SHELL):
        create_token(user=ada, name="laptop")
    entry = ChangeLogEntry.objects.get(subject_kind="token")
    assert (entry.actor, entry.reason) == ("system", "by the shell user deploy on the server")
    title = "The shell user deploy on the server made the personal token laptop of ada"
    assert notified() == [("ada", title), ("root", title)]


def test_own_new_token_sends_no_notification(root: User, ada: User):
    Event.objects.all().delete()
    with acting_as(ada):
        create_token(user=ada)
    assert notified() == []


# --- service accounts ----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["approver", "admin"])
def test_service_account_cannot_get_the_approver_or_admin_role(ada: User, role: str):
    assert_refused("service_account", create_service_account, name="robot", owner=ada, roles=[role])
    assert not User.objects.filter(username="robot").exists()
    robot = create_service_account(name="robot", owner=ada, roles=["editor"])
    assert_refused("service_account", set_roles, user=robot, roles=["editor", role])
    assert_refused("service_account", ensure_user, name="robot", roles=[role])
    assert_refused("service_account", grant_role, user=robot, role=role, environment="dev")
    assert set(robot.groups.values_list("name", flat=True)) == {"editor"}


@pytest.mark.parametrize("permission", sorted(USERS_ONLY))
def test_service_account_lacks_user_only_permissions_despite_admin_role_and_superuser_flag(
    ada: User, permission: Permission
):
    robot = create_service_account(name="robot", owner=ada)
    robot.groups.add(Group.objects.get(name="admin"))
    robot.is_superuser = True
    robot.save()
    robot.role_grants.create(role="admin", environment="dev")
    for known in (robot, User.objects.get(pk=robot.pk)):
        assert not may(known, permission)
        assert not may_somewhere(known, permission)
    assert robot not in holders(permission, Place())
    assert may(robot, Permission.CHANGE_METADATA)


def test_service_account_cannot_manage_users(ada: User):
    robot = create_service_account(name="robot", owner=ada)
    robot.groups.add(Group.objects.get(name="admin"))
    with acting_as(robot, by_token=True):
        assert_refused("not_permitted", create_user, name="eve", roles=["approver"])
        assert_refused("not_permitted", set_password, user=ada, password="analytical engine")


def test_roles_with_user_only_permissions_are_approver_and_admin():
    assert {role for role in Role if USERS_ONLY & ROLES[role]} == {Role.APPROVER, Role.ADMIN}


# --- passwords -----------------------------------------------------------------------------------


def test_password_set_by_an_administrator_is_temporary_until_its_owner_replaces_it(root: User, ada: User):
    with acting_as(root):
        set_password(user=ada, password="analytical engine")
    assert TemporaryPassword.objects.get().user == ada
    ada.refresh_from_db()
    with acting_as(ada):
        assert_refused("weak_password", set_password, user=ada, password="analytical engine")
        set_password(user=ada, password="difference engine")
    assert not TemporaryPassword.objects.exists()


def test_initial_password_of_a_new_account_is_temporary(root: User):
    with acting_as(root):
        create_user(name="eve", roles=["approver"], password="analytical engine")
    assert TemporaryPassword.objects.get().user.username == "eve"


# --- notifications -------------------------------------------------------------------------------


def _set_password(ada: User) -> None:
    set_password(user=ada, password="analytical engine")


def _make_admin(ada: User) -> None:
    set_roles(user=ada, roles=["admin"])


def _grant(ada: User) -> None:
    grant_role(user=ada, role="approver", environment="prod")


def _link(ada: User) -> None:
    link_identity(user=ada, issuer="https://id.example.org", subject="s-1")


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (_set_password, "password set for the owner to replace"),
        (_make_admin, "roles admin"),
        (_grant, "granted approver for environment prod"),
        (_link, "identity s-1 at https://id.example.org"),
    ],
)
def test_account_change_notifies_the_owner_and_other_administrators(
    root: User, rita: User, ada: User, change, action: str
):
    with acting_as(root):
        change(ada)
    title = f"root changed the account ada: {action}"
    assert notified() == [("ada", title), ("rita", title)]


def test_new_account_notifies_other_administrators(root: User, rita: User):
    with acting_as(root):
        create_user(name="eve", roles=["approver"])
    title = "root created the account eve: roles approver"
    assert notified() == [("rita", title)]


def test_reactivated_account_notifies_its_owner_and_other_administrators(root: User, rita: User, ada: User):
    with acting_as(root):
        deactivate_user(user=ada)
        assert [name for name, _ in notified()] == ["rita"]
        activate_user(user=ada)
    title = "root changed the account ada: active yes"
    assert notified() == [("ada", title), ("rita", title)]


def test_role_an_administrator_takes_notifies_other_administrators(root: User, rita: User):
    with acting_as(root):
        set_roles(user=root, roles=["admin", "approver"])
    assert notified() == [("rita", "root changed the account root: roles admin, approver")]


def test_account_notifications_cannot_be_switched_off(root: User, rita: User, ada: User):
    from elevata.notifications.services import choose_events

    choose_events(user=ada, listed=[], emailed=[])
    with acting_as(root):
        set_roles(user=ada, roles=["viewer"])
    assert [name for name, _ in notified()] == ["ada", "rita"]


def test_new_service_account_notifies_its_owner(root: User, ada: User):
    with acting_as(root):
        create_service_account(name="robot", owner=ada, roles=["editor"])
    assert [name for name, _ in notified()] == ["ada"]
