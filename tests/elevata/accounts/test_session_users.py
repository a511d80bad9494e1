"""Users of sessions: loading, permission checks, and their number of queries."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from elevata.accounts.permissions import may, may_somewhere
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.accounts.services.users import grant_role
from elevata.accounts.sign_in import AccountBackend

pytestmark = pytest.mark.django_db


def load_user(user: User) -> User:
    return AccountBackend().get_user(user.pk)


def test_user_without_place_roles_is_checked_without_a_query_for_grants(
    person: User, django_assert_num_queries: DjangoAssertNumQueries
):
    user = load_user(person)
    with django_assert_num_queries(2):  # own permissions and those of groups
        assert not may_somewhere(user, Permission.APPROVE_REPORTS)
        assert not may(user, Permission.APPROVE_REPORTS, Place(environment="dev"))


def test_role_for_an_environment_is_valid_in_that_environment_only(person: User):
    grant_role(user=person, role="approver", environment="dev")
    user = load_user(person)
    assert may(user, Permission.APPROVE_REPORTS, Place(environment="dev"))
    assert not may(user, Permission.APPROVE_REPORTS, Place(environment="prod"))


def test_granted_role_is_valid_from_the_next_request(person: User, reader: Client):
    assert reader.post("/start-load/", {"scope": "all"}).status_code == 403
    grant_role(user=person, role="operator", environment="dev")
    assert reader.post("/start-load/", {"scope": "all"}).status_code != 403


def test_backend_returns_no_inactive_user(person: User):
    person.is_active = False
    person.save()
    assert load_user(person) is None


def test_session_of_a_deleted_user_is_signed_out(reader: Client, person: User):
    person.delete()
    assert reader.get("/").status_code == 302
