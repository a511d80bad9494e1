"""Permission matrix: every route by every method, for every role and for users who are not signed in."""

from collections.abc import Callable, Iterator

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern

from elevata.accounts.roles import ROLES, Role
from elevata.accounts.services.users import ensure_user
from elevata.api.resources import Reads
from tests.elevata.web.permissions import (
    METHODS,
    Needs,
    declared,
    in_table,
    is_open,
    methods_of,
    patterns,
    permissions_of,
)
from tests.elevata.web.routes import RULES
from tests.elevata.web.test_routes import Addresses, addresses, controlled  # noqa: F401  fixtures

PATTERNS = patterns()
Tried = Callable[[URLPattern], tuple[str, ...]]
# Routes with another protection, which has tests of its own.
OPEN = {"healthz", "readyz", "metrics", "sign_in", "sign_out", "sso", "sso_callback"}
# Routes for users without a role.
WITHOUT_ROLE = {"me", "own_password", "sign_out"}


def test_views_declare_the_permissions_of_the_table():
    differs = []
    for name, pattern in PATTERNS.items():
        for method in methods_of(pattern):
            if not is_open(pattern) and declared(pattern, method) != in_table(name, method):
                differs.append(f"{method} {name}: declares {declared(pattern, method)}, not {in_table(name, method)}")
    assert "\n".join(differs) == ""


def test_routes_open_without_sign_in_are_listed():
    assert {name for name, pattern in PATTERNS.items() if is_open(pattern)} <= OPEN


def tried_methods(name: str) -> Iterator[str]:
    """Yield the methods to try. A page without a declaration may accept only GET."""
    pattern = PATTERNS[name]
    declares = [method for method in methods_of(pattern) if declared(pattern, method) is not None]
    yield from declares or ["GET"]


def status(client: Client, name: str, method: str, address: str) -> tuple[int, str]:
    """Return the status of the response and the address of its redirect; roll back what the request wrote."""
    rule = RULES[name]
    data = rule.data if method == rule.method.upper() else {}
    options = {"content_type": "application/json"} if address.startswith("/api/") and method != "GET" else {}
    before = transaction.savepoint()
    answer = getattr(client, method.lower())(address, data, **options)
    transaction.savepoint_rollback(before)
    return answer.status_code, getattr(answer, "url", "")


def may(role: Role, needed: Needs | None) -> bool:
    return not needed or bool(needed & ROLES[role])


def least(needed: Needs | None) -> Role:
    """Return the role with the fewest permissions that has these."""
    return min((role for role in Role if may(role, needed)), key=lambda role: len(ROLES[role]))


# `make test` tries the role with the fewest permissions, and users without a role.
ROLES_BY_DAY = [
    pytest.param(role, marks=pytest.mark.core if role is Role.VIEWER else pytest.mark.full) for role in Role
]


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("role", ROLES_BY_DAY)
def test_role_is_accepted_for_its_permissions_and_refused_otherwise(role: Role, everything: bool, addresses: Addresses):  # noqa: F811
    """Check each route; day runs try a permitted route only with the role with the fewest sufficient permissions."""
    client = Client(raise_request_exception=False)
    client.force_login(ensure_user(name="rowena", roles=[role]))
    wrong = []
    for name in sorted(set(PATTERNS) - OPEN):
        for method in tried_methods(name):
            needed = declared(PATTERNS[name], method)
            allowed = may(role, needed)
            if allowed and not everything and role is not least(needed):
                continue
            code, _ = status(client, name, method, addresses[name])
            # A method that is not accepted is permitted to no role.
            if code >= 500 or (code == 403 if allowed else code not in (403, 405)):
                wrong.append(f"{role} {method} {name}: {code}")
    assert "\n".join(wrong) == ""


def every_method(_: URLPattern) -> tuple[str, ...]:
    return METHODS


BY_METHOD = pytest.mark.parametrize("tried", [methods_of, pytest.param(every_method, marks=pytest.mark.nightly)])


@BY_METHOD
def test_user_without_a_role_is_refused_except_for_the_own_account(nobody: Client, tried: Tried, addresses: Addresses):  # noqa: F811
    nobody.raise_request_exception = False
    wrong = []
    for name in sorted(set(PATTERNS) - OPEN - WITHOUT_ROLE):
        for method in tried(PATTERNS[name]):
            code, leads = status(nobody, name, method, addresses[name])
            if code != 403:
                wrong.append(f"{method} {name}: {code} {leads}")
    assert "\n".join(wrong) == ""


def test_routes_open_without_a_role_are_listed():
    views = {name: pattern.callback for name, pattern in PATTERNS.items()}
    assert {name for name, view in views.items() if getattr(view, "open_without_role", False)} == WITHOUT_ROLE
    resources = [name for name in set(PATTERNS) - OPEN if hasattr(views[name], "cls")]
    checks = {
        name: [requires_reading(PATTERNS[name], method) for method in methods_of(PATTERNS[name])] for name in resources
    }
    assert resources
    assert [name for name, all_methods in checks.items() if not all(all_methods)] == []


def requires_reading(pattern: URLPattern, method: str) -> bool:
    """Return True if a resource requires the permission to read metadata."""
    return any(isinstance(permission, Reads) for permission in permissions_of(pattern.callback, method))


@BY_METHOD
def test_anonymous_user_is_refused_at_each_route(tried: Tried, addresses: Addresses):  # noqa: F811
    client = Client(raise_request_exception=False)
    wrong = []
    for name in sorted(set(PATTERNS) - OPEN):
        for method in tried(PATTERNS[name]):
            code, leads = status(client, name, method, addresses[name])
            refused = code == 401 if hasattr(PATTERNS[name].callback, "cls") else leads.startswith("/sign-in/?next=")
            if not refused:
                wrong.append(f"{method} {name}: {code} {leads}")
    assert "\n".join(wrong) == ""


def test_page_without_a_declared_permission_for_post_refuses_post(operator: Client, addresses: Addresses):  # noqa: F811
    silent = [name for name, pattern in PATTERNS.items() if not is_open(pattern) and declared(pattern, "POST") is None]
    pages = [name for name in silent if not hasattr(PATTERNS[name].callback, "cls")]
    taken = [name for name in pages if status(operator, name, "POST", addresses[name])[0] != 405]
    assert pages
    assert taken == []
