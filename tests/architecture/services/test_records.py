"""Records: content, verification from the file alone, and detection of changes."""

import copy
import json

import pytest

from architecture.domain.artifacts import verify
from architecture.domain.change_policy import PolicySet
from architecture.models import AppliedDataset, ExecutionRecord
from architecture.services.automatic_changes import Pending, begin_execution, finish_execution
from architecture.services.execution_records import approval_artifact, record_artifact
from architecture.services.observations import Observations
from architecture.services.record_verification import verify_record
from architecture.services.report_basis import Basis
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from elevata.core.errors import MetadataError
from metadata.domain.scope import Scope
from tests.architecture.executions import needing_approval

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(built) -> ExecutionRecord:
    """Return the record of a report that a user approved."""
    needing_approval(built)
    return built.executed().record


def read_back(artifact: dict) -> dict:
    """Return the artifact as read back from a file."""
    return json.loads(json.dumps(artifact))


def test_record_contains_requester_scope_approvals_fingerprints_and_result(built, record):
    body = record.document
    assert (body["format"], body["environment"], body["outcome"]) == ("execution-record/v2", "dev", "succeeded")
    assert (body["requested_by"], body["scope"]["kind"], body["dependency_mode"]) == (
        "olga",
        "all",
        "with_dependencies",
    )
    assert [approval["person"] for approval in body["approvals"]] == ["bob"]
    assert body["report"]["fingerprint"] == record.execution.report.fingerprint
    assert body["preview"]["fingerprint"] == record.execution.preview.fingerprint
    assert body["software"]["Django"]
    assert {operation["status"] for operation in body["operations"]} == {"succeeded"}
    assert all("version_after" in operation and "statement" in operation for operation in body["operations"])
    assert body["seconds"] is not None


@pytest.mark.parametrize(
    ("scope", "mode"),
    [
        (Scope(), "with_dependencies"),
        (Scope("dataset", "rawcore.rc_crm_customer"), "with_dependencies"),
        (Scope("dataset", "rawcore.rc_crm_customer", target_only=True), "target_only"),
    ],
)
def test_record_of_changes_executed_by_a_load_contains_the_scope_of_the_load(built, scope: Scope, mode: str):
    pending = Pending(Basis(built.environment, Scope(), (), (), Observations({}, frozenset(), None), PolicySet()))
    execution = begin_execution(pending=pending, reason="load run night-1", user=built.operator, scope=scope)
    body = finish_execution(execution=execution).record.document
    assert (body["dependency_mode"], body["scope"]["kind"]) == (mode, scope.kind)


def test_record_and_approval_verify_from_the_file_alone(record):
    assert verify(read_back(record_artifact(record))) == ()
    assert verify(read_back(approval_artifact(record.execution.report))) == ()


def test_a_record_is_verified_with_the_present_structure_of_its_datasets(record):
    result = verify_record(record)
    assert result.is_proven
    assert {each.status for each in result.datasets} == {"in_sync"}


def test_record_verification_reports_a_later_changed_table_as_drifted(built, record):
    dataset = verify_record(record).datasets[0]
    built.warehouse.rename_behind_your_back(dataset.key, "balance", "saldo")
    built.warehouse.show()
    assert verify_record(record).datasets[0].status == "drifted"


def test_record_verification_does_not_compare_superseded_datasets(record):
    AppliedDataset.objects.update(execution=None)
    (dataset, *_) = verify_record(record).datasets
    assert (dataset.status, dataset.reason) == ("superseded", "removed, or adopted as the baseline, since then")


def test_record_and_approval_are_sealed_in_the_chain(record):
    chain.seal()
    assert verify_chain().intact


TAMPERED = [
    (("document", "outcome"), "failed", "DIGEST"),
    (("document", "requested_by"), "eve", "DIGEST"),
    (("document", "operations", 0, "version_after"), 99, "DIGEST"),
    (("document", "report", "content", "environment"), "prod", "FINGERPRINT"),
    (("document", "preview", "document", "steps", 0, "statement"), "DROP TABLE x", "FINGERPRINT"),
    (("document", "approvals", 0, "fingerprint"), "0" * 64, "OTHER_REPORT"),
    (("row", "digest"), "0" * 64, "DIGEST"),
    (("link", "previous"), "1" * 64, "LINK"),
    (("link", "sealed_at"), "2020-01-01T00:00:00.000000+00:00", "LINK"),
    (("link", "sequence"), 10**6, "HEAD"),
]


@pytest.mark.full
@pytest.mark.parametrize(("place", "value", "code"), TAMPERED)
def test_a_record_that_was_changed_does_not_verify(record, place, value, code):
    artifact = read_back(record_artifact(record))
    inside = artifact
    for part in place[:-1]:
        inside = inside[part]
    inside[place[-1]] = value
    assert code in {finding.code for finding in verify(artifact)}


def test_an_approval_that_was_changed_does_not_verify(record):
    artifact = read_back(approval_artifact(record.execution.report))
    changed = copy.deepcopy(artifact)
    changed["approvals"][0]["row"]["person"] = "ada"
    assert {finding.code for finding in verify(changed)} == {"DIGEST"}
    changed = copy.deepcopy(artifact)
    changed["report"]["content"]["environment"] = "prod"
    assert {finding.code for finding in verify(changed)} == {"FINGERPRINT"}


@pytest.mark.parametrize(
    "artifact", [[], {}, {"format": "execution-record/v1"}, {"format": "execution-record/v2"}, None]
)
def test_verification_refuses_a_document_that_is_no_artifact(artifact):
    with pytest.raises(MetadataError):
        verify(artifact)


def test_an_artifact_without_its_parts_is_invalid(record):
    artifact = read_back(record_artifact(record))
    del artifact["document"]["approvals"]
    with pytest.raises(MetadataError):
        verify(artifact)


def test_records_and_approvals_are_never_changed_in_the_orm(record):
    for row in (record, record.execution.report.approvals.get()):
        for change in (row.save, row.delete, type(row).objects.all().delete):
            with pytest.raises(MetadataError):
                change()
