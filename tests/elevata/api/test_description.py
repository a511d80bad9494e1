"""The API keeps what its description promises: generated requests, as every role, judged by every check."""

import json
import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.wsgi import application
from tests.architecture.world import person

# So many requests an operation and role: `make test-nightly` asks for more.
EXAMPLES = int(os.environ.get("ELEVATA_API_EXAMPLES", "1"))
QUICKLY = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
# By day the role that may do most, and the one that may do least with requests that fit; what each role may is in
# the permission matrix.
BY_DAY = {(Role.ADMIN, GenerationMode.POSITIVE), (Role.ADMIN, GenerationMode.NEGATIVE)} | {
    (Role.VIEWER, GenerationMode.POSITIVE)
}
ASKED = [
    pytest.param(role, mode, id=f"{role}-{mode.value}", marks=() if (role, mode) in BY_DAY else pytest.mark.nightly)
    for role, mode in product(Role, GenerationMode)
]
# What fits the description may still be refused: names must be those of things that there are, expressions SQL.
NOT_ASKED = [positive_data_acceptance]


@pytest.fixture
def one_connection(db) -> Iterator[None]:
    """Requests see what the test wrote, and leave its connection open."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture(scope="module")
def described() -> Any:
    """The description as clients read it, told by the application itself."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    schema = schemathesis.openapi.from_dict(json.loads(json.dumps(document, default=str)))
    schema.app = application
    return schema


@pytest.fixture(scope="module")
def never_wrong() -> set[str]:
    """Operations to which nothing wrong can be sent. That takes long to find out, and is the same for every role."""
    return set()


def broken_promises(operation: Any, mode: GenerationMode, headers: dict[str, str], never_wrong: set[str]) -> list[str]:
    """Return the failures that generated requests to one operation found; their changes are rolled back."""
    if mode is GenerationMode.NEGATIVE and operation.label in never_wrong:
        return []

    @QUICKLY
    @given(case=operation.as_strategy(mode))
    def ask(case: schemathesis.Case) -> None:
        before = transaction.savepoint()
        try:
            case.validate_response(case.call(headers=headers), headers=headers, excluded_checks=NOT_ASKED)
        finally:
            transaction.savepoint_rollback(before)

    try:
        ask()
    except FailureGroup as several:
        return [f"{operation.label}: {failure}" for failure in several.exceptions]
    except Failure as failure:
        return [f"{operation.label}: {failure}"]
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE
        never_wrong.add(operation.label)
    return []


@pytest.mark.takes(seconds=6)
@pytest.mark.parametrize(("role", "mode"), ASKED)
def test_operations_conform_to_their_description_for_every_role(
    one_connection, warehouse, described, never_wrong, role: Role, mode: GenerationMode
):
    del warehouse
    _, token = create_token(user=person("vera", role))
    headers = {"Authorization": f"Token {token}"}
    assert not broken_operations(described, mode, headers, never_wrong)


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
def test_operations_conform_to_their_description_without_sign_in(
    one_connection, warehouse, described, never_wrong, mode: GenerationMode
):
    del warehouse
    assert not broken_operations(described, mode, {}, never_wrong)


def broken_operations(described: Any, mode: GenerationMode, headers: dict[str, str], never_wrong: set[str]) -> str:
    failures = [
        broken
        for operation in described.get_all_operations()
        for broken in broken_promises(operation.ok(), mode, headers, never_wrong)
    ]
    return "\n".join(failures)
