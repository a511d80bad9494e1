"""Requests for history batches."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from loader.contract.refusals import Refusal
from loader.contract.run_states import HISTORY_BATCH
from loader.domain.reference.batch_files import FILES
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_history_batch
from loader.services.maintenance.work import scope_of
from loader.services.sources.specs import absolute_place
from metadata.domain.sources.locations import parse_location

FORMATS, COMPRESSIONS = ("csv", "parquet"), ("none", "zstd")


def request_history_batch(
    *,
    dataset: str,
    files: Mapping[str, Sequence[str]],
    format: str = "csv",
    compression: str = "none",
    reading: Mapping[str, Any] | None = None,
    copied: str = "",
    run_id: str | None = None,
    at: datetime | None = None,
    reason: str = "",
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request a history batch for a dataset. ``files`` are paths or URIs, by kind.

    ``reading`` are further fields of ``loader.contract.manifest.loads.HistoryFiles``, as JSON. Its ``rows`` are
    taken from the history of the dataset ``copied``, if it is given. The reason is optional.
    """
    details = _file_details(files, format, compression, reading or {}) | ({"copied": copied} if copied else {})
    wanted = Asked(
        kind=HISTORY_BATCH,
        scope=scope_of(dataset),
        load_timestamp=at,
        asked=details,
        check=lambda: plan_history_batch(dataset, copied),
        reason=reason.strip(),
    )
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _file_details(
    files: Mapping[str, Sequence[str]], format: str, compression: str, reading: Mapping[str, Any]
) -> dict[str, Any]:
    unknown = [kind for kind in files if kind not in FILES]
    if unknown:
        raise Refusal("UNKNOWN_FILE", f"there is no {unknown[0]} file", hint=f"known: {', '.join(FILES)}")
    if format not in FORMATS or compression not in COMPRESSIONS:
        raise Refusal(
            "BAD_OPTION",
            f"batch files cannot be {format} with compression {compression}",
            hint=f"formats are {' and '.join(FORMATS)}, compressions {' and '.join(COMPRESSIONS)}",
        )
    if (format, compression) == ("parquet", "zstd"):
        raise Refusal("BAD_OPTION", "Parquet files say themselves how they are compressed", hint="leave it out")
    chosen = {kind: [_resolve_links(absolute_place(path)) for path in files[kind]] for kind in FILES if files.get(kind)}
    if not chosen and not reading.get("rows"):
        raise Refusal("NO_FILES", "a history batch needs at least one file", hint=f"of {', '.join(FILES)}")
    details = {"files": chosen, "format": format, "compression": compression}
    return details | {"reading": dict(reading)} if reading else details


def _resolve_links(place: str) -> str:
    """Return a local path with its links resolved, so that later changes of a link have no effect."""
    location = parse_location(place, folder="/")
    if not location.is_local:
        return place
    rest = location.segments[len(location.fixed.segments) :]
    return os.path.join(os.path.realpath(location.fixed.path), *rest)
