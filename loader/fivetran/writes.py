"""Writes of Fivetran as history batches: each is a load run, requested by the sender and performed by a worker."""

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.domain.fivetran import SYNCED
from loader.domain.queries.masking import without_any_value
from loader.fivetran.files import Budget, PackedFile
from loader.fivetran.metadata_rows import in_history_mode
from loader.fivetran.pending_changes import refuse_waiting
from loader.fivetran.tables import column_name, known_table, rawcore_of, target_names
from loader.management.waiting import follow
from loader.models import LoadRun
from loader.services.loads.load_runs import new_run_id, request_cancel
from loader.services.maintenance.history_batches import request_history_batch
from loader.services.uploads import SentFile, keep_batch
from metadata.models import SourceDataset


class Interrupted(Exception):
    """Error raised when a run did not come to its end: the sender may send the same again."""


def write_files(
    source: SourceDataset,
    files: Iterable[tuple[str, PackedFile]],
    *,
    null_string: str,
    unmodified_string: str,
    stopping: threading.Event,
) -> None:
    """Apply the files, pairs of kind and file, in one run. Their plain content is removed when the run has ended.

    Rows of a table that is not in history mode are dated by this call.
    """
    files = list(files)
    if not files:
        return
    run_id = new_run_id()
    budget = Budget.of_settings()
    sent = (SentFile(kind, file.name, file.chunks(budget)) for kind, file in files)
    batch = keep_batch(run_id=run_id, sent=sent, repeatable=False)
    try:
        names = {sent: name for sent, name in target_names(source).items() if sent != name}
        reading: dict[str, Any] = {"names": names, "binary": "base64"}
        reading |= {"null_string": null_string} if null_string else {}
        reading |= {"unmodified_string": unmodified_string} if unmodified_string else {}
        reading |= {} if in_history_mode(source) else {"dated": timezone.now().isoformat()}
        how = {"files": batch.files, "format": batch.format, "compression": batch.compression}
        _perform(source, stopping, run_id=run_id, reading=reading, reason="written by Fivetran", **how)
    finally:
        batch.discard()


def truncate(
    schema: str,
    name: str,
    *,
    synced_column: str,
    before: datetime,
    deleted_column: str,
    stopping: threading.Event,
) -> None:
    """End all rows that were synced before a time, or with ``deleted_column`` mark them as deleted.

    A table that does not exist is ignored.
    """
    source = known_table(schema, name)
    if source is None:
        return
    rows: dict[str, Any] = {
        "at": before.astimezone(UTC).isoformat(),
        "before": {column_name(source, synced_column or SYNCED): before.astimezone(UTC).isoformat()},
    }
    rows |= {"values": {column_name(source, deleted_column): "true"}} if deleted_column else {"deletes": True}
    change_rows(source, rows, stopping=stopping, reason="truncated by Fivetran")


def change_rows(source: SourceDataset, rows: Mapping[str, Any], *, stopping: threading.Event, reason: str) -> None:
    """Apply a batch that is computed from the table's versions (``loader.contract.manifest.loads.ComputedRows``)."""
    reading = {"rows": dict(rows)}
    _perform(source, stopping, run_id=new_run_id(), files={}, reading=reading, reason=reason)


def copy_versions(
    original: SourceDataset, copy: SourceDataset, rows: Mapping[str, Any], *, stopping: threading.Event
) -> None:
    """Write all versions of a table to another with the columns of both; ``rows`` ends some of them."""
    taken = target_names(original)
    copies = {name: taken[sent] for sent, name in target_names(copy).items() if sent in taken}
    reading = {"rows": {"every": True, "copies": copies, **rows}}
    copied = str(rawcore_of(original))
    reason = f"copied by Fivetran from {original.name}"
    _perform(copy, stopping, run_id=new_run_id(), files={}, reading=reading, copied=copied, reason=reason)


def _perform(source: SourceDataset, stopping: threading.Event, **how: Any) -> None:
    """Request the run, wait for its end, and raise an error unless it succeeded."""
    requested = request_history_batch(dataset=str(rawcore_of(source)), **how)
    if requested.notice:
        request_cancel(run=requested.run)
        raise Interrupted(f"the broker does not answer: {requested.reason}")

    def show(run: LoadRun, rows: list) -> None:
        if stopping.is_set() and not run.is_finished:
            request_cancel(run=run, reason="the Fivetran service was stopped")
            raise Interrupted("the service is being stopped")

    run = follow(requested.run, show)
    if run.status == states.SUCCEEDED:
        return
    if run.status == states.BLOCKED:
        refuse_waiting(source)
    if run.status in (states.BLOCKED, states.FAILED):
        raise Refusal("RUN_FAILED", _ending(run))
    raise Interrupted(_ending(run))


def _ending(run: LoadRun) -> str:
    """Return the end of a run without values of rows, which must not reach Fivetran's dashboard."""
    error = run.error or {"code": run.status, "message": "its log has the reason"}
    return f"load run {run.run_id} ended as {run.status}: {without_any_value(error)}"
