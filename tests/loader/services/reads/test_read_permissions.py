"""Read permissions: data by place, masked sensitive values, and a log entry for each read of them."""

import json

import pytest
from django.contrib.auth.models import User

from architecture.domain.tables import history_table, rawcore_table
from architecture.selectors.dataset_states import described_state
from architecture.services.environments import current_environment
from elevata.accounts.services.users import ensure_user, grant_role, set_roles
from elevata.audit.models import ChainLink, ChangeLogEntry
from elevata.audit.services.chain import seal
from elevata.core.errors import MetadataError
from loader.models import ReadRequest
from loader.services.reads.attempts import perform_read
from loader.services.reads.manifests import read_manifest
from loader.services.reads.read_permissions import sensitive_keys
from loader.services.reads.read_requests import request_read
from tests.loader.airports import target

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "rawcore.rc_air_airport"
ANSWER = {"columns": ["icao", "name"], "rows": [["EDDF", "Frankfurt"]], "table_version": 3, "truncated": False}


@pytest.fixture
def classified(airports) -> None:
    target(NAME).columns.filter(name="name").update(pii=True)


def reader(*roles: str) -> User:
    return ensure_user(name="vera", roles=roles)


def request_sample(user: User | None, kind: str = "sample", **arguments: object) -> ReadRequest:
    made = request_read(
        kind=kind, dataset=target(NAME), arguments=arguments, user=user, wake_worker=False, reason="why"
    )
    return ReadRequest.objects.get(pk=made.read.pk)


def entries() -> list[ChangeLogEntry]:
    return list(ChangeLogEntry.objects.filter(subject_kind="data"))


def test_sensitive_values_are_masked_for_a_user_without_the_permission(classified):
    masking = read_manifest(read=request_sample(reader("viewer"))).masking
    keys = {column.name: str(column.key) for column in target(NAME).columns.all()}
    assert keys["name"] not in masking.shown
    assert keys["icao"] in masking.shown


@pytest.mark.parametrize("role", ["viewer", "editor", "approver", "operator", "admin"])
def test_roles_other_than_steward_get_masked_values(classified, role: str):
    assert read_manifest(read=request_sample(reader(role))).masking is not None


def test_steward_and_system_read_sensitive_values_unmasked(classified):
    assert read_manifest(read=request_sample(reader("steward"))).masking is None
    assert read_manifest(read=request_sample(None)).masking is None


def test_steward_of_one_schema_reads_sensitive_values_only_there(classified):
    user = reader("viewer")
    grant_role(user=user, role="steward", schema=target(NAME).schema.name)
    assert read_manifest(read=request_sample(User.objects.get(pk=user.pk))).masking is None
    raw = target("raw.raw_air_airport")
    made = request_read(kind="sample", dataset=raw, user=User.objects.get(pk=user.pk), wake_worker=False).read
    assert read_manifest(read=made).masking is not None


def test_read_without_the_permission_in_the_schema_is_refused(airports):
    user = reader()
    grant_role(user=user, role="viewer", schema=target("raw.raw_air_airport").schema.name)
    with pytest.raises(MetadataError) as refused:
        request_sample(User.objects.get(pk=user.pk))
    assert refused.value.code == "not_permitted"
    assert not ReadRequest.objects.exists()


def test_role_removed_before_the_answer_fails_the_read(airports, runner, script):
    script.tell(answers={"sample": ANSWER})
    read = request_sample(reader("viewer"))
    set_roles(user=reader("viewer"), roles=[])
    ended = perform_read(read.pk, worker="w", runner=runner)
    assert (ended.status, ended.error["code"], ended.answer) == ("failed", "NOT_PERMITTED", None)
    assert script.seen("read") == []


def test_a_read_of_sensitive_values_leaves_one_entry_without_values(classified, runner, script):
    script.tell(answers={"versions": ANSWER})
    read = request_sample(reader("steward"), "versions", business_key={"icao": "EDDF"})
    perform_read(read.pk, worker="w", runner=runner)
    perform_read(read.pk, worker="w", runner=runner)
    (entry,) = entries()
    assert (entry.actor, entry.action, entry.subject_name, entry.reason) == ("vera", "read", NAME, "why")
    changes = {name: sides["after"] for name, sides in json.loads(entry.changes).items()}
    assert changes == {
        "dataset": str(target(NAME).key),
        "kind": "versions",
        "columns": ["name"],
        "asked by": ["business_key"],
        "rows": 1,
    }
    assert "Frankfurt" not in entry.changes


def test_log_entry_of_a_read_is_part_of_the_chain(classified, runner, script):
    script.tell(answers={"sample": ANSWER})
    perform_read(request_sample(reader("steward")).pk, worker="w", runner=runner)
    seal()
    (entry,) = entries()
    assert ChainLink.objects.filter(subject_id=entry.pk, kind="change").exists()


@pytest.mark.parametrize("masked", [["name"], []])
def test_a_read_without_sensitive_values_leaves_no_entry(airports, runner, script, masked):
    if masked:
        target(NAME).columns.filter(name="name").update(pii=True)
    script.tell(answers={"sample": ANSWER | {"masked": masked}})
    perform_read(request_sample(reader("viewer")).pk, worker="w", runner=runner)
    assert entries() == []


def test_sensitive_keys_include_the_hashes_of_sensitive_values(airports):
    """Check hashes, too, since the hash of a key can be found by guessing the key."""
    dataset = target(NAME)
    dataset.columns.filter(name="icao").update(pii=True)
    sensitive = set(sensitive_keys(current_environment(), {str(dataset.key)}))
    described = described_state(dataset, environment=current_environment())
    history = history_table(described)
    hashes = {
        table.column(purpose).key
        for table in (rawcore_table(described), history)
        for purpose in ("entity_key", "row_hash")
    }
    visible = {column.key for column in dataset.columns.exclude(name="icao")} | {history.column("started_at").key}
    assert sensitive >= hashes | {history.column("history_key").key, str(dataset.columns.get(name="icao").key)}
    assert not sensitive & set(map(str, visible))
