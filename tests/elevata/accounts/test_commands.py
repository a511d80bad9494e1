"""Tests of the user commands: roles for one place, service accounts, read-only tokens, provider identities."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from elevata.accounts.management.commands import (
    create_token,
    create_user,
    grant_role,
    link_identity,
    revoke_tokens,
    unlock,
)
from elevata.accounts.models import Identity, PersonalToken, RoleGrant, ServiceAccount
from elevata.accounts.services.tokens import create_token as new_token
from elevata.accounts.services.users import ensure_user
from elevata.accounts.single_sign_on_provider import Provider
from tests.elevata.audit.test_commands import run
from tests.factories import TargetSchemaFactory

# A command closes its connections when it ends.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada() -> User:
    return ensure_user(name="ada", roles=["editor"])


def test_grant_role_grants_and_revokes_a_role_for_a_place(ada: User, capsys: pytest.CaptureFixture):
    TargetSchemaFactory(name="sales", layer="bizcore")
    assert run(grant_role, "ada", "approver", "--schema", "sales", "--json") == 0
    assert json.loads(capsys.readouterr().out)["place"] == "schema sales"
    assert str(RoleGrant.objects.get()) == "approver for schema sales"
    assert run(grant_role, "ada", "approver", "--schema", "sales", "--revoke") == 0
    assert not RoleGrant.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("ada", "approver"),
        ("ada", "approver", "--layer", "attic"),
        ("ada", "approver", "--layer", "raw", "--environment", "dev"),
        ("ada", "approver", "--schema", "nowhere"),
        ("ada", "king", "--layer", "raw"),
        ("eve", "approver", "--layer", "raw"),
    ],
)
def test_grant_role_ends_with_4_for_an_invalid_grant(ada: User, arguments: tuple[str, ...]):
    assert run(grant_role, *arguments) == 4
    assert not RoleGrant.objects.exists()


def test_a_service_account_is_made_with_a_token(ada: User, capsys: pytest.CaptureFixture):
    arguments = ("robot", "--role", "operator", "--service-account-of", "ada", "--token", "--json")
    assert run(create_user, *arguments) == 0
    assert json.loads(capsys.readouterr().out)["token"].startswith("elv_")
    assert ServiceAccount.objects.get().owner == ada


def test_a_service_account_gets_no_password(ada: User):
    arguments = ("robot", "--role", "operator", "--service-account-of", "ada", "--password", "analytical engine")
    assert run(create_user, *arguments) == 4
    assert not ServiceAccount.objects.exists()


def test_create_token_creates_a_read_only_token(ada: User, capsys: pytest.CaptureFixture):
    assert run(create_token, "ada", "--scope", "read", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scope"] == "read"
    assert PersonalToken.objects.get().is_read_only


def as_token(monkeypatch: pytest.MonkeyPatch, user: User, scope: str) -> None:
    monkeypatch.setenv("ELEVATA_TOKEN", new_token(user=user, scope=scope)[1])


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (create_user, ("eve", "--role", "admin", "--token")),
        (create_token, ("ada",)),
        (revoke_tokens, ("ada",)),
        (grant_role, ("ada", "admin", "--environment", "dev")),
        (unlock, ("ada",)),
    ],
)
def test_read_only_token_is_refused_by_commands_that_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, module: Any, arguments: tuple[str, ...]
):
    as_token(monkeypatch, ensure_user(name="ada", roles=["admin"]), "read")
    assert run(module, *arguments) == 4
    assert "may only read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (create_user, ("eve", "--role", "admin", "--token")),
        (create_token, ("root",)),
        (revoke_tokens, ("root",)),
        (grant_role, ("ada", "admin", "--environment", "dev")),
        (unlock, ("root",)),
    ],
)
def test_editor_token_is_refused_by_administrator_commands(
    monkeypatch: pytest.MonkeyPatch, ada: User, module: Any, arguments: tuple[str, ...]
):
    ensure_user(name="root", roles=["admin"])
    as_token(monkeypatch, ada, "write")
    assert run(module, *arguments) == 4


def test_link_identity_requires_a_provider_and_links_the_user(ada: User, settings):
    assert run(link_identity, "ada", "248289761001") == 4
    settings.SINGLE_SIGN_ON = Provider("https://id.example.org", "elevata")
    assert run(link_identity, "ada", "248289761001") == 0
    assert Identity.objects.get().user == ada


def test_link_identity_refuses_a_subject_of_another_user(ada: User):
    ensure_user(name="eve", roles=[])
    assert run(link_identity, "ada", "1", "--issuer", "https://id.example.org") == 0
    assert run(link_identity, "eve", "1", "--issuer", "https://id.example.org") == 4
    assert Identity.objects.get().user == ada
