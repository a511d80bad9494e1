"""Verification of an execution record: its proof, and the present structure of the datasets that it changed."""

from dataclasses import dataclass
from datetime import datetime

from architecture.domain.artifacts import Finding, verify
from architecture.domain.report_states import SUPERSEDED
from architecture.domain.states.dataset_drift import DatasetDrift, drift
from architecture.models import AppliedDataset, ExecutionRecord
from architecture.selectors.dataset_states import applied_by_pk
from architecture.services.execution_records import record_artifact
from architecture.services.observations import last_observations
from architecture.services.report_basis import table_keys
from elevata.core.words import counted


@dataclass(frozen=True)
class RecordVerification:
    """Result of verifying a record.

    ``findings`` are the errors of its digests, fingerprints and link. ``datasets`` compare the recorded structure with
    the tables as they were last observed, at ``observed_at``; a dataset that was changed again is superseded.
    """

    findings: tuple[Finding, ...]
    link: int
    datasets: tuple[DatasetDrift, ...]
    observed_at: datetime | None

    @property
    def is_proven(self) -> bool:
        return not self.findings

    @property
    def summary(self) -> str:
        """Return the result in one sentence."""
        if self.findings:
            return f"The record does not verify: {counted(len(self.findings), 'error')}."
        return f"The record verifies: every digest and fingerprint matches, and it is link {self.link} of the chain."


def verify_record(record: ExecutionRecord) -> RecordVerification:
    """Verify a record as ``manage.py records`` does, and compare its datasets with the warehouse's last observation."""
    artifact = record_artifact(record)
    datasets, observed_at = _datasets(record)
    return RecordVerification(verify(artifact), artifact["link"]["sequence"], datasets, observed_at)


def _datasets(record: ExecutionRecord) -> tuple[tuple[DatasetDrift, ...], datetime | None]:
    """Return the datasets of a record compared with their last observation, and its time."""
    steps = record.execution.operations.exclude(dataset_key=None).order_by("ordinal")
    names = {str(key): name for key, name in steps.values_list("dataset_key", "qualified_name")}
    rows = AppliedDataset.objects.filter(environment=record.environment, dataset_key__among=list(names))
    applied = {str(key): execution for key, execution in rows.values_list("dataset_key", "execution_id")}
    own = [state for state, _ in applied_by_pk(rows).values() if applied.get(state.key) == record.execution_id]
    keys = table_keys(own)
    observations = last_observations(environment=record.environment, keys=keys)
    known = [state for state in own if state.key in observations.keys or state.materialization == "view"]
    compared = drift(known, {key: observations.tables[key] for key in table_keys(known) if key in observations.tables})
    unknown = drift([state for state in own if state not in known], None)
    changed = (
        DatasetDrift(key, name, SUPERSEDED, reason=_changed_again(applied.get(key)))
        for key, name in names.items()
        if key not in {state.key for state in own}
    )
    return tuple(sorted((*compared, *unknown, *changed), key=lambda each: each.dataset)), observations.oldest(keys)


def _changed_again(execution: int | None) -> str:
    if execution is None:
        return "removed, or adopted as the baseline, since then"
    return f"changed again by execution {execution}"
