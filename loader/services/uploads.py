"""Uploaded history batch files, stored until their run ends.

Each batch has a folder of its own below ``BATCH_FOLDER``. Its name is computed from run id and content, so that a
repeated upload uses the files stored before. No part of a path comes from a sender.
"""

import hashlib
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.domain.reference.batch_files import FILES
from loader.models import LoadRun
from loader.services.upload_formats import CSV, PACKED_CSV, PARQUET, Limits, examined

log = logging.getLogger(__name__)

# Files of a run that did not succeed are removed after this time; until then it can be repeated.
KEPT_FOR = timedelta(days=7)
# Files without a run are removed after this time.
ABANDONED_AFTER = timedelta(hours=1)
# Maximum number of stored batches.
MOST_BATCHES = 100
_RUN_FILE = "batch.json"
_FORMATS = {CSV: ("csv", "none"), PACKED_CSV: ("csv", "zstd"), PARQUET: ("parquet", "none")}


@dataclass(frozen=True)
class SentFile:
    """Uploaded file: kind of batch file, the sender's file name, content in chunks."""

    kind: str
    name: str
    chunks: Iterable[bytes]


@dataclass(frozen=True)
class KeptBatch:
    """Stored batch in the form that ``request_history_batch`` takes; ``made`` unless it was stored before."""

    folder: Path
    files: dict[str, list[str]]
    format: str
    compression: str
    made: bool = field(default=True)

    def discard(self) -> None:
        """Remove the files of a run that was refused, unless they were stored before."""
        if self.made:
            shutil.rmtree(self.folder, ignore_errors=True)


def keep_batch(*, run_id: str, sent: Iterable[SentFile], repeatable: bool = True) -> KeptBatch:
    """Store the files of a run's batch. Unless it is ``repeatable``, they are removed as soon as the run has ended.

    Raise Refusal, and store nothing, for files that are no batch files or too large.
    """
    root = Path(settings.BATCH_FOLDER)
    root.mkdir(parents=True, exist_ok=True)
    if sum(1 for _ in _folders(root)) >= MOST_BATCHES:
        raise Refusal(
            "TOO_MANY_BATCHES",
            f"{MOST_BATCHES} batches wait to be applied, or failed and may be repeated",
            hint="wait until the worker has applied some",
        )
    incoming = root / f".{secrets.token_hex(16)}"
    incoming.mkdir(mode=0o700)
    try:
        stored, form, digest = _store(incoming, sent)
        (incoming / _RUN_FILE).write_text(json.dumps({"run_id": run_id, "repeatable": repeatable}))
        folder = root / f"{hashlib.sha256(run_id.encode()).hexdigest()[:16]}-{digest[:32]}"
        made = _move_into_place(incoming, folder)
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise
    files = {kind: [str(folder / name) for name in names] for kind, names in stored.items()}
    return KeptBatch(folder, files, *_FORMATS[form], made=made)


def _move_into_place(incoming: Path, folder: Path) -> bool:
    """Rename the incoming folder to ``folder``; return False if the same files are stored already."""
    try:
        os.rename(incoming, folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(incoming)
        return False
    return True


def _store(folder: Path, sent: Iterable[SentFile]) -> tuple[dict[str, list[str]], str, str]:
    """Store the files; return their names by kind, their common format, and a digest of kinds and contents."""
    limits = Limits(settings.BATCH_MAX_UNPACKED_BYTES)
    stored: dict[str, list[str]] = {}
    whole, form, first = hashlib.sha256(), "", ""
    for place, file in enumerate(sent):
        if file.kind not in FILES:
            raise Refusal("UNKNOWN_FILE", f"there is no {file.kind} file", hint=f"known: {', '.join(FILES)}")
        shown = f"{file.kind} file {file.name!r}"
        path = folder / f"{file.kind}-{place}"
        digest = _write(path, file.chunks)
        format_ = examined(path, shown, limits)
        if form and format_ != form:
            message = f"{first} is {form}, {shown} is {format_}"
            raise Refusal("MIXED_FILES", message, hint="Send the files of a batch in one format.")
        form, first = format_, first or shown
        name = f"{path.name}.{format_}"
        path.rename(folder / name)
        stored.setdefault(file.kind, []).append(name)
        whole.update(f"{file.kind}:{digest}\n".encode())
    if not stored:
        raise Refusal("NO_FILES", "a history batch needs at least one file", hint=f"of {', '.join(FILES)}")
    return stored, form, whole.hexdigest()


def _write(path: Path, chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    with path.open("xb") as stream:
        for chunk in chunks:
            digest.update(chunk)
            stream.write(chunk)
    return digest.hexdigest()


def sweep_uploads() -> int:
    """Remove the files of applied, expired and never requested batches; return the number of batches."""
    root = Path(settings.BATCH_FOLDER)
    if not root.is_dir():
        return 0
    folders = {folder: _facts_of(folder) for folder in _folders(root)}
    run_ids = {facts.get("run_id", "") for facts in folders.values()}
    runs = {run.run_id: run for run in LoadRun.objects.filter(run_id__in=run_ids)}
    unused = [folder for folder, facts in folders.items() if _is_unused(folder, facts, runs)]
    for folder in unused:
        try:
            shutil.rmtree(folder)
        except OSError as error:  # the next sweep tries again
            log.warning("the files of a batch cannot be removed: %s", error)
    return len(unused)


def _folders(root: Path) -> Iterator[Path]:
    return (folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink())


def _facts_of(folder: Path) -> dict[str, Any]:
    """Return run id and ``repeatable`` of a folder's batch; an empty dict for an incomplete folder."""
    try:
        facts = json.loads((folder / _RUN_FILE).read_text())
        return {"run_id": str(facts["run_id"]), "repeatable": facts.get("repeatable", True)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _is_unused(folder: Path, facts: Mapping[str, Any], runs: Mapping[str, LoadRun]) -> bool:
    run = runs.get(facts.get("run_id", ""))
    if run is None or not _uses(run, folder):
        try:
            return time.time() - folder.stat().st_mtime > ABANDONED_AFTER.total_seconds()
        except OSError:  # another process removed it
            return False
    if run.status == states.SUCCEEDED or (run.is_finished and not facts["repeatable"]):
        return True
    return run.is_finished and run.finished_at is not None and timezone.now() - run.finished_at > KEPT_FOR


def _uses(run: LoadRun, folder: Path) -> bool:
    files = (run.details.get("asked") or {}).get("files") or {}
    return any(Path(path).parent == folder for paths in files.values() for path in paths)
