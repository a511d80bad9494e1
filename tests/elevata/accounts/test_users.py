"""Tests of users, the permissions of their roles, and the tokens that act for them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.management import call_command
from django.utils import timezone

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
def test_a_role_gives_what_the_table_says_and_no_more(role: Role, permission: Permission) -> None:
    assert may(person(role), permission) == (permission in TABLE[role])


def test_roles_add_up() -> None:
    both = frozenset({Role.EDITOR, Role.APPROVER})
    assert permissions_of(both) == READ | {Permission.CHANGE_METADATA, Permission.APPROVE_REPORTS}
    assert may(person(*both), Permission.CHANGE_METADATA)
    assert may(user_named("ada"), Permission.APPROVE_REPORTS)


def test_nobody_may_nothing() -> None:
    assert not may(None, Permission.START_LOAD)
    assert not may(AnonymousUser(), Permission.START_LOAD)


def test_who_is_out_of_use_may_nothing() -> None:
    user = person("admin")
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert not may(user_named("ada"), Permission.START_LOAD)


def test_a_user_that_is_ensured_is_active_again() -> None:
    user = person("admin")
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert ensure_user(name="ada", roles=["admin"]).is_active


def test_a_superuser_is_an_admin() -> None:
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


def test_migrating_again_puts_a_group_right() -> None:
    Group.objects.get(name="editor").permissions.clear()
    Group.objects.get(name="viewer").permissions.set(Group.objects.get(name="admin").permissions.all())
    call_command("migrate", verbosity=0, interactive=False)
    assert may(person("editor"), Permission.CHANGE_METADATA)
    assert not may(person("viewer"), Permission.CHANGE_METADATA)


def test_other_permissions_of_other_apps_are_left_alone() -> None:
    group = Group.objects.get(name="admin")
    sync_roles(app_label="accounts")
    assert group.permissions.filter(codename="start_load").exists()


# --- people --------------------------------------------------------------------------------------


def test_a_person_signs_in_with_their_password() -> None:
    assert create_user(name="ada", roles=["viewer"], password=PASSWORD).check_password(PASSWORD)


def test_a_person_without_a_password_does_not_sign_in() -> None:
    assert not create_user(name="ada", roles=["viewer"]).has_usable_password()


def test_a_name_is_given_once() -> None:
    person("viewer")
    with pytest.raises(MetadataError) as refused:
        create_user(name="ada", roles=["admin"])
    assert refused.value.code == "name_taken"


def test_ensuring_twice_changes_nothing() -> None:
    person("viewer")
    person("viewer")
    assert ChangeLogEntry.objects.count() == 1


def test_ensuring_sets_exactly_these_roles_and_leaves_other_groups() -> None:
    user = person("viewer", "editor")
    user.groups.add(Group.objects.create(name="finance"))
    person("approver")
    assert roles_of(user) == {Role.APPROVER}
    assert user.groups.filter(name="finance").exists()


def test_ensuring_keeps_a_password_that_is_not_given() -> None:
    ensure_user(name="ada", roles=["viewer"], password=PASSWORD)
    assert ensure_user(name="ada", roles=["editor"]).check_password(PASSWORD)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"name": "", "roles": ["viewer"]}, "invalid"),
        ({"name": "a b", "roles": ["viewer"]}, "invalid"),
        ({"name": "ada", "roles": ["king"]}, "invalid"),
        ({"name": "ada", "roles": ["viewer"], "password": "1234"}, "weak_password"),
        ({"name": "adalovelace", "roles": ["viewer"], "password": "adalovelace"}, "weak_password"),
    ],
)
def test_what_cannot_be_is_refused_and_nobody_is_made(given: dict, code: str) -> None:
    with pytest.raises(MetadataError) as refused:
        ensure_user(**given)
    assert refused.value.code == code
    assert not User.objects.exists()


def test_a_new_password_is_told_without_saying_it() -> None:
    person("viewer")
    ensure_user(name="ada", roles=["viewer"], password=PASSWORD)
    assert ChangeLogEntry.objects.latest("id").changes == '{"password":{"after":"changed"}}'


def test_nobody_of_that_name_is_said() -> None:
    with pytest.raises(MetadataError) as refused:
        user_named("eve")
    assert refused.value.code == "unknown_user"


# --- tokens --------------------------------------------------------------------------------------


def test_a_token_finds_its_person() -> None:
    user = person("viewer")
    _, text = create_token(user=user)
    assert authenticate_token(text).user == user


def test_a_token_is_stored_hashed_only() -> None:
    token, text = create_token(user=person("viewer"))
    stored = PersonalToken.objects.values().get()
    assert text not in {str(value) for value in stored.values()}
    assert len(token.digest) == 128


def test_a_token_is_good_for_ninety_days_or_as_long_as_said() -> None:
    user = person("viewer")
    for days, expected in ((None, 90), (7, 7)):
        token, _ = create_token(user=user, days=days)
        assert abs(token.expiry - timezone.now() - timedelta(days=expected)) < timedelta(minutes=1)


@pytest.mark.parametrize("days", [0, -1, 367])
def test_a_token_for_ever_is_refused(days: int) -> None:
    with pytest.raises(MetadataError, match="1 to 366"):
        create_token(user=person("viewer"), days=days)


def test_an_expired_token_is_refused_and_says_when() -> None:
    token, text = create_token(user=person("viewer"))
    PersonalToken.objects.filter(pk=token.pk).update(expiry=timezone.now() - timedelta(seconds=1))
    with pytest.raises(MetadataError, match="expired on 20") as refused:
        authenticate_token(text)
    assert refused.value.code == "token_expired"


@pytest.mark.parametrize("text", ["", "x", "elv_" + "0" * 64, "elv_é", "\x00", "elv_ und mehr"])
def test_what_is_no_token_is_refused(text: str) -> None:
    create_token(user=person("viewer"))
    with pytest.raises(MetadataError) as refused:
        authenticate_token(text)
    assert refused.value.code == "token_invalid"


def test_a_token_that_differs_in_its_last_letter_is_refused() -> None:
    _, text = create_token(user=person("viewer"))
    with pytest.raises(MetadataError):
        authenticate_token(text[:-1] + ("0" if text[-1] != "0" else "1"))


def test_the_token_of_somebody_out_of_use_is_refused() -> None:
    user = person("viewer")
    _, text = create_token(user=user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    with pytest.raises(MetadataError, match="inactive"):
        authenticate_token(text)


def test_somebody_out_of_use_gets_no_token() -> None:
    user = person("viewer")
    user.is_active = False
    with pytest.raises(MetadataError, match="inactive"):
        create_token(user=user)


def test_revoked_tokens_are_refused_and_others_are_not() -> None:
    user = person("viewer")
    _, lost = create_token(user=user, name="laptop")
    _, kept = create_token(user=user, name="server")
    assert revoke_tokens(user=user, name="laptop") == 1
    with pytest.raises(MetadataError):
        authenticate_token(lost)
    assert authenticate_token(kept).name == "server"


def test_all_tokens_of_a_person_are_revoked_at_once() -> None:
    user = person("viewer")
    for name in ("laptop", "server"):
        create_token(user=user, name=name)
    assert revoke_tokens(user=user) == 2


def test_when_a_token_was_last_used_is_written_once_a_minute(django_assert_num_queries) -> None:
    _, text = create_token(user=person("viewer"))
    authenticate_token(text)
    assert PersonalToken.objects.get().last_used_at is not None
    with django_assert_num_queries(1):
        authenticate_token(text)


def test_tokens_are_told_without_their_text() -> None:
    user = person("viewer")
    _, text = create_token(user=user, name="laptop")
    revoke_tokens(user=user)
    made, revoked = ChangeLogEntry.objects.filter(subject_kind="token").order_by("id")
    assert (made.action, revoked.action, made.subject_key) == ("created", "deleted", revoked.subject_key)
    assert text[4:] not in made.changes + made.subject_key + made.subject_name
