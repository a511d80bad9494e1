"""Tests of roles for one place in metadata services, and of service accounts."""

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from elevata.accounts.actors import acting_as
from elevata.accounts.models import RoleGrant
from elevata.accounts.permissions import may, may_somewhere, roles_of
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.accounts.services.tokens import authenticate_token, create_token, revoke_token
from elevata.accounts.services.users import create_service_account, ensure_user, grant_role, revoke_grant
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from elevata.notifications.services import create_webhook
from metadata.models import TargetDataset, TargetSchema
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    update_schema,
    update_target_dataset,
)
from metadata.services.references import create_reference
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory, airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def sales() -> TargetSchema:
    return TargetSchemaFactory(name="sales", layer="bizcore")


@pytest.fixture
def finance() -> TargetSchema:
    return TargetSchemaFactory(name="finance", layer="bizcore")


def user_named(name: str = "ada", *roles: str) -> User:
    return ensure_user(name=name, roles=roles)


def assert_refused(code: str, call, *args, **fields) -> None:
    with pytest.raises(MetadataError) as problem:
        call(*args, **fields)
    assert problem.value.code == code


def place(schema: TargetSchema) -> Place:
    return Place(schemas=frozenset({(schema.name, schema.layer)}))


# --- permission checks -------------------------------------------------------------------------


def test_schema_role_is_valid_in_its_schema_only(sales, finance):
    grant_role(user=user_named(), role="editor", schema=sales.name)
    ada = User.objects.get()
    assert may(ada, Permission.CHANGE_METADATA, on=place(sales))
    assert not may(ada, Permission.CHANGE_METADATA, on=place(finance))
    assert not may(ada, Permission.CHANGE_METADATA)
    assert may_somewhere(ada, Permission.CHANGE_METADATA)
    assert roles_of(ada, place(sales)) == {Role.EDITOR}


def test_schema_role_follows_a_renamed_schema(sales):
    grant_role(user=user_named(), role="editor", schema=sales.name)
    update_schema(schema=sales, expected_version=sales.version, name="selling")
    assert may(User.objects.get(), Permission.CHANGE_METADATA, on=Place(schemas=frozenset({("selling", "bizcore")})))


def test_inactive_user_has_no_role_anywhere(sales):
    grant_role(user=user_named(), role="editor", schema=sales.name)
    User.objects.update(is_active=False)
    assert not may(User.objects.get(), Permission.CHANGE_METADATA, on=place(sales))
    assert not may_somewhere(User.objects.get(), Permission.CHANGE_METADATA)


def test_environment_admin_cannot_manage_users():
    ada = user_named()
    grant_role(user=ada, role="admin", environment="dev")
    assert may(ada, Permission.MANAGE_POLICIES, on=Place("dev"))
    with acting_as(ada):
        assert_refused("not_permitted", grant_role, user=ada, role="admin", environment="prod")
        assert_refused("not_permitted", ensure_user, name="ada", roles=["admin"])


def test_environment_admin_cannot_create_webhooks():
    ada = user_named()
    grant_role(user=ada, role="admin", environment="dev")
    with acting_as(ada):
        assert_refused(
            "not_permitted", create_webhook, name="chat", url="https://hooks.example.org/", events=["load.failed"]
        )


# --- granting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{}, {"environment": "dev", "layer": "raw"}, {"layer": "attic"}])
def test_grant_role_requires_exactly_one_known_place(where):
    assert_refused("invalid", grant_role, user=user_named(), role="editor", **where)


def test_database_refuses_a_grant_for_two_places(sales):
    ada = user_named()
    with pytest.raises(IntegrityError), transaction.atomic():
        RoleGrant.objects.create(user=ada, role="editor", layer="raw", environment="dev")


def test_repeated_grant_is_stored_and_logged_once(sales):
    ada = user_named()
    first = grant_role(user=ada, role="editor", schema=sales.name)
    assert grant_role(user=ada, role="editor", schema=sales.name) == first
    revoke_grant(grant=first)
    changes = [entry.changes for entry in ChangeLogEntry.objects.filter(subject_key="ada").order_by("pk")][1:]
    assert changes == [
        '{"granted":{"after":"editor for schema sales"}}',
        '{"granted":{"before":"editor for schema sales"}}',
    ]


# --- checks of services ------------------------------------------------------------------------


@pytest.fixture
def editor_of_sales(sales) -> User:
    ada = user_named()
    grant_role(user=ada, role="editor", schema=sales.name)
    return User.objects.get(pk=ada.pk)


def test_schema_editor_creates_datasets_and_columns_in_their_schema(editor_of_sales, sales):
    with acting_as(editor_of_sales):
        dataset = create_target_dataset(schema=sales, name="orders")
        create_target_column(dataset=dataset, name="total", type="decimal(10,2)")
    assert TargetDataset.objects.get(name="orders").columns.get().name == "total"


def test_schema_editor_cannot_change_other_schemas(editor_of_sales, finance):
    theirs = TargetDatasetFactory(schema=finance, name="ledger")
    with acting_as(editor_of_sales):
        assert_refused("not_permitted", create_target_dataset, schema=finance, name="orders")
        assert_refused("not_permitted", create_target_column, dataset=theirs, name="total", type="string")
        assert_refused("not_permitted", update_target_dataset, dataset=theirs, expected_version=1, description="mine")
        assert_refused("not_permitted", create_schema, name="attic", layer="raw")
        assert_refused("not_permitted", generate_targets, source_dataset=airport_source())
    assert list(TargetDataset.objects.values_list("name", flat=True)) == ["ledger"]


def test_layer_editor_cannot_move_a_schema_from_another_layer(sales):
    ada = user_named()
    grant_role(user=ada, role="editor", layer="serving")
    with acting_as(User.objects.get(pk=ada.pk)):
        assert_refused("not_permitted", update_schema, schema=sales, expected_version=sales.version, layer="serving")
        assert create_schema(name="board", layer="serving").pk


def test_reference_requires_permission_on_the_child_schema(editor_of_sales, sales, finance):
    child, parent = TargetDatasetFactory(schema=finance), TargetDatasetFactory(schema=sales)
    pair = (TargetColumnFactory(dataset=child), TargetColumnFactory(dataset=parent, key_ordinal=1))
    with acting_as(editor_of_sales):
        assert_refused("not_permitted", create_reference, child=child, parent=parent, role_name="", pairs=[pair])


def test_viewer_cannot_change_metadata(sales):
    with acting_as(user_named("vera", "viewer")):
        assert_refused("not_permitted", create_target_dataset, schema=sales, name="orders")


def test_system_actor_may_change_metadata(sales):
    assert create_target_dataset(schema=sales, name="orders").pk


# --- read-only tokens ----------------------------------------------------------------------------


def test_read_only_token_of_an_admin_cannot_write(sales):
    ada = user_named("ada", "admin")
    with acting_as(ada, by_token=True, read_only=True):
        assert_refused("token_scope", create_target_dataset, schema=sales, name="orders")
        assert_refused("token_scope", create_token, user=ada)
        assert_refused("token_scope", ensure_user, name="eve", roles=["admin"])
        assert_refused("token_scope", grant_role, user=ada, role="editor", schema=sales.name)


def test_token_scope_is_read_or_write():
    assert_refused("invalid", create_token, user=user_named(), scope="all")
    assert create_token(user=User.objects.get(), scope="read")[0].is_read_only


def test_user_cannot_create_or_revoke_tokens_of_another_user():
    ada, eve = user_named("ada", "editor"), user_named("eve", "editor")
    token, _ = create_token(user=ada)
    with acting_as(eve):
        assert_refused("not_permitted", create_token, user=ada)
        assert_refused("not_permitted", revoke_token, token=token)


# --- service accounts ----------------------------------------------------------------------------


def test_service_account_never_gets_a_password():
    robot = create_service_account(name="robot", owner=user_named(), roles=["operator"])
    assert not robot.has_usable_password()
    assert_refused("invalid", ensure_user, name="robot", roles=[], password="analytical engine")


def test_service_account_cannot_own_a_service_account():
    robot = create_service_account(name="robot", owner=user_named())
    assert_refused("invalid", create_service_account, name="second", owner=robot)


def test_service_account_tokens_are_managed_by_its_owner_only():
    ada, eve = user_named(), user_named("eve")
    robot = create_service_account(name="robot", owner=ada)
    with acting_as(ada):
        token, text = create_token(user=robot, name="nightly")
    with acting_as(eve):
        assert_refused("not_permitted", revoke_token, token=token)
    assert authenticate_token(text).user == robot
    with acting_as(ada):
        revoke_token(token=token)
    assert_refused("token_invalid", authenticate_token, text)


def test_service_account_token_is_invalid_once_its_owner_is_inactive():
    ada = user_named()
    _, text = create_token(user=create_service_account(name="robot", owner=ada))
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert_refused("token_invalid", authenticate_token, text)
