"""Users with a permission at a place: they agree with ``may`` and have reasons."""

import itertools

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.auth.models import Permission as StoredPermission

from elevata.accounts.access import Ground, grounds, holders, with_grounds
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.accounts.services.users import create_service_account, ensure_user, grant_role
from tests.factories import TargetSchemaFactory

pytestmark = pytest.mark.django_db

SALES, FINANCE = ("sales", "bizcore"), ("finance", "serving")
PLACES = [
    Place(),
    Place(environment="dev"),
    Place(schemas=frozenset({SALES})),
    Place("dev", frozenset({SALES})),
    Place("prod", frozenset({SALES, FINANCE})),
    # An unknown schema has no layer.
    Place(schemas=frozenset({("gone", "")})),
]


@pytest.fixture
def users() -> None:
    """Create users with each way to a permission, and some without it."""
    for name, layer in (SALES, FINANCE):
        TargetSchemaFactory(name=name, layer=layer)
    for role in Role:
        ensure_user(name=role.value, roles=[role])
        somewhere = {"schema": "sales"}, {"layer": "serving"}, {"environment": "dev"}
        for number, place in enumerate(somewhere):
            grant_role(user=ensure_user(name=f"{role.value}-{number}", roles=[]), role=role, **place)
        user = ensure_user(name=f"{role.value}-both", roles=[])
        for place in somewhere[:2]:
            grant_role(user=user, role=role, **place)
    root = User.objects.create_superuser("root")
    root.user_permissions.add(StoredPermission.objects.get(codename="read_sensitive"))
    User.objects.create_superuser("root-steward").groups.add(Group.objects.get(name="steward"))
    User.objects.create_user("gone", is_active=False).groups.add(Group.objects.get(name="admin"))
    direct = User.objects.create_user("direct")
    direct.user_permissions.add(StoredPermission.objects.get(codename="approve_reports"))
    auditors = Group.objects.create(name="auditors")
    auditors.permissions.add(StoredPermission.objects.get(codename="read_sensitive"))
    User.objects.create_user("grouped").groups.add(auditors)
    program = create_service_account(name="program", owner=root, roles=["operator"])
    program.groups.add(Group.objects.get(name="admin"))
    User.objects.create_user("nobody")


@pytest.mark.full
def test_listed_users_and_reasons_agree_with_the_permission_check(users: None):
    known = list(with_grounds(User.objects.order_by("username")))
    for permission, place in itertools.product(Permission, PLACES):
        allowed = {user.username for user in User.objects.all() if may(user, permission, place)}
        assert {user.username for user in holders(permission, place)} == allowed, (permission, place)
        assert {user.username for user in known if grounds(user, permission, place)} == allowed, (permission, place)


def test_reasons_name_role_group_and_place(users: None):
    known = {user.username: user for user in with_grounds(User.objects.all())}
    here = Place("dev", frozenset({SALES}))

    def reasons(name: str, permission: Permission) -> list[str]:
        return [str(ground) for ground in grounds(known[name], permission, here)]

    assert reasons("steward", Permission.READ_SENSITIVE) == ["steward (everywhere)"]
    assert reasons("steward-0", Permission.READ_SENSITIVE) == ["steward (schema sales)"]
    assert reasons("steward-2", Permission.READ_SENSITIVE) == ["steward (environment dev)"]
    assert reasons("grouped", Permission.READ_SENSITIVE) == ["auditors (everywhere)"]
    assert reasons("root", Permission.READ_DATA) == ["superuser (everywhere)"]
    assert reasons("direct", Permission.APPROVE_REPORTS) == ["direct permission (everywhere)"]
    two = Place("prod", frozenset({SALES, FINANCE}))
    assert grounds(known["editor-both"], Permission.CHANGE_METADATA, two) == (
        Ground("editor", "schema sales"),
        Ground("editor", "layer serving"),
    )


def test_grounds_query_count_does_not_depend_on_the_number_of_users(users: None, django_assert_num_queries):
    with django_assert_num_queries(7):
        assert [grounds(user, Permission.READ_DATA, PLACES[3]) for user in with_grounds(User.objects.all())]
