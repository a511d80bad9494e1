"""Tests of the rules for roles granted for one place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.accounts.places import Place
from elevata.accounts.roles import ROLES, GrantedRole, Permission, Role, allows, roles_at

RAW, CORE, MART = ("raw", "raw"), ("rawcore", "rawcore"), ("sales", "bizcore")
EDITOR, OPERATOR = Role.EDITOR, Role.OPERATOR
CHANGE, EXECUTE = Permission.CHANGE_METADATA, Permission.EXECUTE_REPORTS


def at(*schemas: tuple[str, str], environment: str = "") -> Place:
    return Place(environment, frozenset(schemas))


@pytest.mark.parametrize(
    ("grant", "place", "expected"),
    [
        (GrantedRole(EDITOR, layer="bizcore"), at(MART), True),
        (GrantedRole(EDITOR, layer="bizcore"), at(CORE), False),
        (GrantedRole(EDITOR, schema="sales"), at(MART), True),
        (GrantedRole(EDITOR, schema="sales"), at(MART, CORE), False),
        (GrantedRole(EDITOR, environment="dev"), at(environment="dev"), True),
        (GrantedRole(EDITOR, environment="dev"), at(CORE, environment="dev"), True),
        (GrantedRole(EDITOR, environment="dev"), at(CORE, environment="prod"), False),
        (GrantedRole(EDITOR, environment="dev"), at(CORE), False),
        (GrantedRole(EDITOR, layer="bizcore"), at(), False),
        (GrantedRole(OPERATOR, layer="bizcore"), at(MART), False),
    ],
)
def test_grant_is_valid_in_its_place_only(grant: GrantedRole, place: Place, expected: bool):
    assert allows([grant], CHANGE, place) is expected


def test_two_grants_of_a_role_cover_both_their_places():
    grants = [GrantedRole(EDITOR, schema="sales"), GrantedRole(EDITOR, layer="rawcore")]
    assert allows(grants, CHANGE, at(MART, CORE))
    assert not allows(grants[:1], CHANGE, at(MART, CORE))


def test_grants_of_different_roles_are_not_combined():
    grants = [GrantedRole(EDITOR, schema="sales"), GrantedRole(Role.APPROVER, layer="rawcore")]
    assert roles_at(grants, at(MART, CORE)) == frozenset()
    assert roles_at(grants, at(MART)) == {EDITOR}


def test_permission_check_without_a_place_accepts_any_grant():
    assert allows([GrantedRole(OPERATOR, environment="dev")], EXECUTE)
    assert not allows([GrantedRole(EDITOR, environment="dev")], EXECUTE)


_SCHEMAS = st.frozensets(st.sampled_from([RAW, CORE, MART]))
_GRANTS = st.lists(
    st.builds(
        lambda role, kind, name: GrantedRole(role, **{kind: name}),
        st.sampled_from(list(Role)),
        st.sampled_from(["environment", "layer", "schema"]),
        st.sampled_from(["dev", "raw", "rawcore", "bizcore", "sales"]),
    ),
    max_size=5,
)


@given(_GRANTS, st.sampled_from(list(Permission)), _SCHEMAS, _SCHEMAS)
def test_permission_on_a_set_of_schemas_includes_its_subsets(grants, permission, schemas, more):
    if schemas and allows(grants, permission, Place(schemas=schemas | more)):
        assert allows(grants, permission, Place(schemas=schemas))


@given(_GRANTS, st.sampled_from(list(Permission)), _SCHEMAS, st.sampled_from(["", "dev", "prod"]))
def test_roles_at_a_place_give_no_more_than_is_allowed_there(grants, permission, schemas, environment):
    place = Place(environment, schemas)
    given_there = any(permission in ROLES[role] for role in roles_at(grants, place))
    assert not given_there or allows(grants, permission, place)


@given(_GRANTS, st.sampled_from(list(Permission)))
def test_empty_place_is_allowed_by_no_grant(grants, permission):
    assert not allows(grants, permission, Place())
