"""Tests of users, the permissions of their roles, and the tokens that act for them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.management import call_command
from django.utils import timezone

from elevata.accounts.actors import acting_as
from elevata.accounts.models import PersonalToken
from elevata.accounts.permissions import may, roles_of
from elevata.accounts.roles import ROLES, Permission, Role, permissions_of
from elevata.accounts.services.tokens import authenticate_token, create_token, revoke_tokens
from elevata.accounts.services.users import create_user, ensure_user, set_roles, sync_roles, user_named
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError

pytestmark = pytest.mark.django_db

PASSWORD = "analytical engine"


def person(*roles: str) -> User:
    return ensure_user(name="ada", roles=roles)


# --- roles ---------------------------------------------------------------------------------------

READ = {Permission.READ_METADATA, Permission.READ_DATA}
TABLE = {
    Role.VIEWER: READ,
    Role.EDITOR: READ | {Permission.CHANGE_METADATA},
    Role.APPROVER: READ | {Permission.APPROVE_REPORTS},
    Role.OPERATOR: READ | {Permission.EXECUTE_REPORTS, Permission.START_LOAD},
    Role.STEWARD: READ | {Permission.READ_SENSITIVE},
    Role.ADMIN: set(Permission) - {Permission.READ_SENSITIVE},
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("permission", Permission)
def test_role_gives_exactly_the_permissions_of_the_table(role: Role, permission: Permission) -> None:
    assert may(person(role), permission) == (permission in TABLE[role])


def test_administrator_cannot_take_that_role_from_themselves() -> None:
    user = person("admin", "editor")
    with acting_as(user), pytest.raises(MetadataError, match="your own role for managing users"):
        set_roles(user=user, roles=["editor"])
    with acting_as(user):
        set_roles(user=user, roles=["admin"])
    assert roles_of(user_named("ada")) == {Role.ADMIN}


def test_roles_add_up() -> None:
    roles = frozenset({Role.EDITOR, Role.APPROVER})
    assert permissions_of(roles) == READ | {Permission.CHANGE_METADATA, Permission.APPROVE_REPORTS}
    assert may(person(*roles), Permission.CHANGE_METADATA)
    assert may(user_named("ada"), Permission.APPROVE_REPORTS)


def test_anonymous_user_has_no_permission() -> None:
    assert not may(None, Permission.START_LOAD)
    assert not may(AnonymousUser(), Permission.START_LOAD)


def test_inactive_user_has_no_permission() -> None:
    user = person("admin")
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert not may(user_named("ada"), Permission.START_LOAD)


def test_ensure_user_reactivates_an_inactive_user() -> None:
    user = person("admin")
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert ensure_user(name="ada", roles=["admin"]).is_active


def test_superuser_has_the_permissions_and_role_of_an_admin() -> None:
    root = User.objects.create_superuser("root")
    assert {permission for permission in Permission if may(root, permission)} == TABLE[Role.ADMIN]
    assert roles_of(root) == {Role.ADMIN}


def test_a_superuser_reads_sensitive_values_only_as_a_steward() -> None:
    root = User.objects.create_superuser("root")
    set_roles(user=root, roles=["steward"])
    assert may(root, Permission.READ_SENSITIVE)
    assert ChangeLogEntry.objects.latest("pk").subject_name == "root"


def test_every_role_is_a_group_after_migrating() -> None:
    assert set(Group.objects.values_list("name", flat=True)) >= {role.value for role in ROLES}


def test_migration_restores_the_permissions_of_a_group() -> None:
    Group.objects.get(name="editor").permissions.clear()
    Group.objects.get(name="viewer").permissions.set(Group.objects.get(name="admin").permissions.all())
    call_command("migrate", verbosity=0, interactive=False)
    assert may(person("editor"), Permission.CHANGE_METADATA)
    assert not may(person("viewer"), Permission.CHANGE_METADATA)


def test_sync_roles_keeps_permissions_of_other_apps() -> None:
    group = Group.objects.get(name="admin")
    sync_roles(app_label="accounts")
    assert group.permissions.filter(codename="start_load").exists()


# --- users ---------------------------------------------------------------------------------------


def test_create_user_sets_the_given_password() -> None:
    assert create_user(name="ada", roles=["viewer"], password=PASSWORD).check_password(PASSWORD)


def test_create_user_without_a_password_sets_an_unusable_one() -> None:
    assert not create_user(name="ada", roles=["viewer"]).has_usable_password()


def test_create_user_refuses_an_existing_name() -> None:
    person("viewer")
    with pytest.raises(MetadataError) as refused:
        create_user(name="ada", roles=["admin"])
    assert refused.value.code == "name_taken"


def test_repeated_ensure_user_changes_nothing() -> None:
    person("viewer")
    person("viewer")
    assert ChangeLogEntry.objects.count() == 1


def test_ensure_user_sets_exactly_the_given_roles_and_keeps_other_groups() -> None:
    user = person("viewer", "editor")
    user.groups.add(Group.objects.create(name="finance"))
    person("approver")
    assert roles_of(user) == {Role.APPROVER}
    assert user.groups.filter(name="finance").exists()


def test_ensure_user_without_a_password_keeps_the_current_one() -> None:
    ensure_user(name="ada", roles=["viewer"], password=PASSWORD)
    assert ensure_user(name="ada", roles=["editor"]).check_password(PASSWORD)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "", "roles": ["viewer"]}, "invalid"),
        ({"name": "a b", "roles": ["viewer"]}, "invalid"),
        ({"name": "ada", "roles": ["king"]}, "invalid"),
        ({"name": "ada", "roles": ["viewer"], "password": "1234"}, "weak_password"),
        ({"name": "adalovelace", "roles": ["viewer"], "password": "adalovelace"}, "weak_password"),
    ],
)
def test_ensure_user_refuses_invalid_input_and_creates_no_user(fields: dict, code: str) -> None:
    with pytest.raises(MetadataError) as refused:
        ensure_user(**fields)
    assert refused.value.code == code
    assert not User.objects.exists()


def test_password_change_is_logged_without_the_password() -> None:
    person("viewer")
    ensure_user(name="ada", roles=["viewer"], password=PASSWORD)
    assert ChangeLogEntry.objects.latest("id").changes == '{"password":{"after":"changed"}}'


def test_user_named_raises_unknown_user() -> None:
    with pytest.raises(MetadataError) as refused:
        user_named("eve")
    assert refused.value.code == "unknown_user"


# --- tokens --------------------------------------------------------------------------------------


def test_token_authenticates_its_user() -> None:
    user = person("viewer")
    _, text = create_token(user=user)
    assert authenticate_token(text).user == user


def test_a_token_is_stored_hashed_only() -> None:
    token, text = create_token(user=person("viewer"))
    stored = PersonalToken.objects.values().get()
    assert text not in {str(value) for value in stored.values()}
    assert len(token.digest) == 128


def test_token_expires_after_ninety_days_or_the_given_days() -> None:
    user = person("viewer")
    for days, expected in ((None, 90), (7, 7)):
        token, _ = create_token(user=user, days=days)
        assert abs(token.expiry - timezone.now() - timedelta(days=expected)) < timedelta(minutes=1)


@pytest.mark.parametrize("days", [0, -1, 367])
def test_create_token_refuses_days_outside_1_to_366(days: int) -> None:
    with pytest.raises(MetadataError, match="1 to 366"):
        create_token(user=person("viewer"), days=days)


def test_expired_token_is_refused_with_its_expiry() -> None:
    token, text = create_token(user=person("viewer"))
    PersonalToken.objects.filter(pk=token.pk).update(expiry=timezone.now() - timedelta(seconds=1))
    with pytest.raises(MetadataError, match="expired on 20") as refused:
        authenticate_token(text)
    assert refused.value.code == "token_expired"


@pytest.mark.parametrize("text", ["", "x", "elv_" + "0" * 64, "elv_é", "\x00", "elv_ und mehr"])
def test_malformed_or_unknown_token_is_refused(text: str) -> None:
    create_token(user=person("viewer"))
    with pytest.raises(MetadataError) as refused:
        authenticate_token(text)
    assert refused.value.code == "token_invalid"


def test_token_with_a_wrong_last_character_is_refused() -> None:
    _, text = create_token(user=person("viewer"))
    with pytest.raises(MetadataError):
        authenticate_token(text[:-1] + ("0" if text[-1] != "0" else "1"))


def test_token_of_an_inactive_user_is_refused() -> None:
    user = person("viewer")
    _, text = create_token(user=user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    with pytest.raises(MetadataError, match="inactive"):
        authenticate_token(text)


def test_create_token_refuses_an_inactive_user() -> None:
    user = person("viewer")
    user.is_active = False
    with pytest.raises(MetadataError, match="inactive"):
        create_token(user=user)


def test_revoked_tokens_are_refused_and_others_are_not() -> None:
    user = person("viewer")
    _, lost = create_token(user=user, name="laptop")
    _, valid = create_token(user=user, name="server")
    assert revoke_tokens(user=user, name="laptop") == 1
    with pytest.raises(MetadataError):
        authenticate_token(lost)
    assert authenticate_token(valid).name == "server"


def test_revoke_tokens_revokes_all_tokens_of_a_user() -> None:
    user = person("viewer")
    for name in ("laptop", "server"):
        create_token(user=user, name=name)
    assert revoke_tokens(user=user) == 2


def test_last_use_of_a_token_is_stored_at_most_once_a_minute(django_assert_num_queries) -> None:
    _, text = create_token(user=person("viewer"))
    authenticate_token(text)
    assert PersonalToken.objects.get().last_used_at is not None
    with django_assert_num_queries(1):
        authenticate_token(text)


def test_token_changes_are_logged_without_the_token_text() -> None:
    user = person("viewer")
    _, text = create_token(user=user, name="laptop")
    revoke_tokens(user=user)
    created, revoked = ChangeLogEntry.objects.filter(subject_kind="token").order_by("id")
    assert (created.action, revoked.action, created.subject_key) == ("created", "deleted", revoked.subject_key)
    assert text[4:] not in created.changes + created.subject_key + created.subject_name
