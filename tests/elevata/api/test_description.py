"""Conformance of the API to its description: generated requests of each role, with all checks."""

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

# Requests per operation and role; `make test-nightly` sends more.
EXAMPLES = int(os.environ.get("ELEVATA_API_EXAMPLES", "1"))
QUICKLY = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
# Day runs: the role with all permissions, and the one with the fewest with valid requests. The permission matrix
# covers the others.
BY_DAY = {(Role.ADMIN, GenerationMode.POSITIVE), (Role.ADMIN, GenerationMode.NEGATIVE)} | {
    (Role.VIEWER, GenerationMode.POSITIVE)
}
CASES = [
    pytest.param(role, mode, id=f"{role}-{mode.value}", marks=() if (role, mode) in BY_DAY else pytest.mark.nightly)
    for role, mode in product(Role, GenerationMode)
]
# Valid requests may still be refused: names must exist, and expressions must be SQL.
EXCLUDED_CHECKS = [positive_data_acceptance]


@pytest.fixture
def one_connection(db) -> Iterator[None]:
    """Let requests use the transaction of the test and keep its connection open."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture(scope="module")
def api_schema() -> Any:
    """Return the schema of the API as clients read it, bound to the WSGI application."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    schema = schemathesis.openapi.from_dict(json.loads(json.dumps(document, default=str)))
    schema.app = application
    return schema


@pytest.fixture(scope="module")
def without_invalid() -> set[str]:
    """Return a set that collects the operations without invalid requests, which take long to find."""
    return set()


def failures_of(operation: Any, mode: GenerationMode, headers: dict[str, str], without_invalid: set[str]) -> list[str]:
    """Return the failures of generated requests to one operation; changes are rolled back."""
    if mode is GenerationMode.NEGATIVE and operation.label in without_invalid:
        return []

    @QUICKLY
    @given(case=operation.as_strategy(mode))
    def send(case: schemathesis.Case) -> None:
        before = transaction.savepoint()
        try:
            case.validate_response(case.call(headers=headers), headers=headers, excluded_checks=EXCLUDED_CHECKS)
        finally:
            transaction.savepoint_rollback(before)

    try:
        send()
    except FailureGroup as several:
        return [f"{operation.label}: {failure}" for failure in several.exceptions]
    except Failure as failure:
        return [f"{operation.label}: {failure}"]
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE
        without_invalid.add(operation.label)
    return []


@pytest.mark.takes(seconds=6)
@pytest.mark.parametrize(("role", "mode"), CASES)
def test_operations_conform_to_their_description_for_every_role(
    one_connection, warehouse, api_schema, without_invalid, role: Role, mode: GenerationMode
):
    del warehouse
    _, token = create_token(user=person("vera", role))
    headers = {"Authorization": f"Token {token}"}
    assert not failures_of_all(api_schema, mode, headers, without_invalid)


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
def test_operations_conform_to_their_description_without_sign_in(
    one_connection, warehouse, api_schema, without_invalid, mode: GenerationMode
):
    del warehouse
    assert not failures_of_all(api_schema, mode, {}, without_invalid)


def failures_of_all(api_schema: Any, mode: GenerationMode, headers: dict[str, str], without_invalid: set[str]) -> str:
    failures = [
        broken
        for operation in api_schema.get_all_operations()
        for broken in failures_of(operation.ok(), mode, headers, without_invalid)
    ]
    return "\n".join(failures)
