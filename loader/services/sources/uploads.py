"""Files that users upload: new ones into the folder of a system, and the next deliveries of a source."""

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from elevata.audit.services.change_log import record_change
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.historization.references import Feeds
from loader.domain.queries.masking import without_examples
from loader.domain.sources.contract_comparison import CHANGED, CLASHING, GONE, NEW, RETURNING, compare_contract
from loader.domain.sources.delivered_rows import DeliveredRows, is_fault_of_rows
from loader.domain.sources.schema_changes import names_all_columns
from loader.domain.sources.uploads import upload_location
from loader.models import DatasetRun
from loader.selectors.source_state import deliveries, known_columns
from loader.services.sources.specs import source_roots, source_spec
from loader.sources.file_samples import sample_files
from loader.sources.files import HIDDEN
from loader.sources.page_limits import folder_of, local, place_in
from loader.sources.results import Sample
from metadata.domain.sources.formats import FILE_FORMATS, FORMATS, format_of
from metadata.domain.sources.intake import Intake
from metadata.domain.sources.locations import dated
from metadata.domain.sources.option_kinds import FAULTY_ROWS, QUARANTINE, READ_AGAIN
from metadata.domain.sources.value_formats import ValueFormats
from metadata.models import SourceDataset, System
from metadata.permissions import must_be_changeable
from metadata.services.rows.subjects import KINDS

# Rows of a delivery that are checked before it is stored.
CHECKED_ROWS = 20_000
# Folder of an upload that is being received, and the time after which it is left from a killed process.
_HIDDEN_FOLDER, _ABANDONED_AFTER = ".upload-", timedelta(days=1)


def store_upload(*, system: System, name: str, chunks: Iterable[bytes]) -> str:
    """Store an uploaded file in a system's folder and return its location there; a file that exists is kept.

    A folder that does not exist yet is created. The file appears under its name once it is complete, so that a load
    never reads a part of it. Raise Refusal BAD_NAME, UNKNOWN_FORMAT, FILE_EXISTS, TOO_LARGE or NOT_WRITTEN, and those
    of the system's folder. Raise MetadataError ``not_permitted`` for a user who may not change the system.
    """
    must_be_changeable([system])
    folder, target = folder_of(system), _target(system, name)
    exists = Refusal(
        "FILE_EXISTS",
        f"{folder} has a file {name} already",
        file=name,
        hint="Rename the file, or choose the existing one from the list.",
    )
    with _incoming(folder, name, chunks) as incoming:
        if target.exists():
            raise exists
        record = partial(
            record_change,
            subject_kind=KINDS[System],
            subject_key=system.short_name,
            subject_name=str(system),
            after={"file": name, "bytes": incoming.stat().st_size},
        )
        try:
            _put_into_place(partial(os.link, incoming, target), record)
        except FileExistsError:
            raise exists from None
    return name


def _put_into_place(put: Callable[[], object], record: Callable[..., None]) -> None:
    """Add the entry of an upload to the change log, then put the file into its place.

    In this order a process that is killed leaves an entry without its file, and never a file without an entry.
    """
    with transaction.atomic():
        record(action="uploaded")
    try:
        put()
    except OSError:
        record(action="upload_failed")
        raise


def takes_uploads(source: SourceDataset) -> bool:
    """Return True for a source whose deliveries are files."""
    return source.active and source.system.kind == System.Kind.FILES and source.format in FILE_FORMATS


def store_delivery(
    *, source: SourceDataset, name: str, chunks: Iterable[bytes], as_it_is: bool = False
) -> "UploadedFile":
    """Store the next delivery of a source, in place of a file of its name, and return its comparison with the contract.

    The change log has size and SHA-256 of both files. The file before is not kept: raw has the rows that runs have
    read of it, as its retention says. A file that a load would refuse, by its columns or its first rows, is refused
    unless ``as_it_is``. Raise Refusal also for a file that is being read, or that a feed has loaded, and MetadataError
    ``not_permitted`` for a user who may not change the source.
    """
    must_be_changeable([source])
    location = _location_of(source, name)
    target = local(place_in(source.system, location))
    _check_replaced(source, location, target)
    with _incoming(target.parent, target.name, chunks) as incoming:
        file = _described(source, incoming, location)
        if not as_it_is and (problem := file.problem(source)):
            raise problem
        record = partial(
            record_change,
            subject_kind=KINDS[SourceDataset],
            subject_key=str(source.key),
            subject_name=str(source),
            dataset_key=source.key,
            before=_facts(target),
            after=_facts(incoming) | {"file": location, "uploaded_as": name},
        )
        _put_into_place(partial(incoming.replace, target), record)
    return file


def uploaded_file(source: SourceDataset, name: str) -> "UploadedFile":
    """Return the stored file that an upload of this name became, compared with the contract. Raise Refusal."""
    location = _location_of(source, name)
    path = local(place_in(source.system, location))
    if not path.is_file():
        raise Refusal("MISSING_FILE", f"{location} is not there any more", file=location, hint="Upload it again.")
    return _described(source, path, location)


@dataclass(frozen=True)
class UploadedFile:
    """Uploaded file, compared with the contract of its source.

    ``rows`` were read, which are all of them if it is ``whole``. ``differing`` has the columns whose values do not
    fit, with a sentence each. ``error`` is the refusal of its first rows, or of their values and keys.
    """

    location: str
    size: int
    rows: int = 0
    whole: bool = False
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    differing: tuple[tuple[str, str], ...] = ()
    error: dict[str, Any] | None = None

    def problem(self, source: SourceDataset) -> Refusal | None:
        """Return the reason for which a load would refuse the file; None if none was found."""
        is_quarantined = source.options.get(FAULTY_ROWS) == QUARANTINE
        if self.error and not (is_quarantined and is_fault_of_rows(self.error["code"], source.format)):
            return Refusal.from_json(self.error)
        missing = self.missing
        if not names_all_columns(source.format):
            # Later records may have the column, and a path reads a part of another one.
            missing = tuple(name for name in missing if self.whole and "." not in name)
        if missing:
            names = ", ".join(missing[:10]) + (", …" if len(missing) > 10 else "")
            return Refusal(
                "MISSING_COLUMN",
                f"{self.location} lacks {counted(len(missing), 'column')} of the contract: {names}",
                file=self.location,
                count=len(missing),
                hint="Correct the file. If the source does not deliver them any more, retire them in the contract.",
            )
        return None


def _location_of(source: SourceDataset, name: str) -> str:
    """Return the location of an upload. Raise Refusal NOT_BY_UPLOAD, BAD_NAME, and those of ``upload_location``."""
    if not takes_uploads(source):
        raise Refusal("NOT_BY_UPLOAD", f"deliveries of {source} are no files that can be uploaded")
    _check_name(name)
    location = _location_now(source)
    is_folder = local(place_in(source.system, location)).is_dir()
    return upload_location(location, name, source_format=source.format, is_folder=is_folder)


def _location_now(source: SourceDataset) -> str:
    return dated(source.location.strip(), timezone.now())


def _check_replaced(source: SourceDataset, location: str, target: Path) -> None:
    """Raise Refusal BEING_READ, or LOADED_ALREADY for a file of a feed that refuses or ignores changed files."""
    if deliveries(source).filter(status=DatasetRun.Status.RUNNING).exists():
        raise Refusal(
            "BEING_READ",
            f"a load is reading {source}",
            file=target.name,
            hint="Upload the file when the load has ended.",
        )
    is_one_file = location == _location_now(source)
    if is_one_file or not target.exists() or source.options.get("changed_files") == READ_AGAIN:
        return
    if not _reads(source, "read_once"):
        return
    loaded = deliveries(source).filter(status=DatasetRun.Status.SUCCEEDED).first()
    if loaded is not None and (loaded.started_at or loaded.run.requested_at).timestamp() > target.stat().st_mtime:
        raise Refusal(
            "LOADED_ALREADY",
            f"{target.name} was loaded, and each file of {source} is loaded once",
            file=target.name,
            hint="Upload corrections under another name. The source's option changed_files can read such files again.",
        )


def _reads(source: SourceDataset, way: str) -> bool:
    """Return True if a raw table of the source is among those of ``Feeds`` that are read in this way."""
    states = {state.key: state for state in described_states(environment=current_environment())}
    feeds = Feeds.of(states, {str(source.key): source_spec(source)})
    return any(str(source.key) in states[key].inputs for key in getattr(feeds, way))


def _described(source: SourceDataset, path: Path, location: str) -> UploadedFile:
    size, options = path.stat().st_size, dict(source.options)
    try:
        sample = sample_files(path, source.format, options, CHECKED_ROWS, roots=source_roots())
    except Refusal as refusal:
        return UploadedFile(location, size, error=without_examples(refusal.as_json(), str(source)))
    values = dict(zip([column.name for column in sample.columns], sample.values, strict=False))
    known, every = known_columns(source), {column.name.lower() for column in sample.columns}
    lines = compare_contract(
        known, sample.columns, values, typed=sample.typed, masked=every, formats=ValueFormats.of(sample.options)
    )
    fault = _delivered_rows(source, sample, values, location).refusal()
    return UploadedFile(
        location,
        size,
        sample.rows,
        sample.whole,
        missing=tuple(line.name for line in lines if line.status == GONE),
        new=tuple(line.name for line in lines if line.status in (NEW, RETURNING)),
        differing=tuple((line.name, line.difference) for line in lines if line.status in (CHANGED, CLASHING)),
        error=fault.as_json() if fault is not None else None,
    )


def _delivered_rows(
    source: SourceDataset, sample: Sample, values: Mapping[str, Sequence[str | None]], location: str
) -> DeliveredRows:
    columns = [column for column in known_columns(source) if column.active and column.name in values]
    watermark = Intake.from_dict(source.intake).watermark
    return DeliveredRows(
        location,
        tuple(columns),
        {column.name: values[column.name] for column in columns},
        source.options,
        {column.name: column.type for column in sample.columns} if sample.typed else {},
        one_row_per_key=not _reads(source, "many_per_key"),
        watermark=tuple(name for name in watermark if name in values),
    )


def _facts(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file; {} if there is none. A file larger than an upload has no SHA-256 here."""
    if not path.is_file():
        return {}
    size = path.stat().st_size
    if size > settings.BATCH_MAX_BYTES:
        return {"bytes": size}
    with path.open("rb") as stream:
        return {"bytes": size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def _target(system: System, name: str) -> Path:
    """Return the path of a new file in the system's folder."""
    _check_name(name)
    if not format_of(name):
        endings = ", ".join(ending for entry in FORMATS for ending in entry.endings)
        raise Refusal("UNKNOWN_FORMAT", f"the ending of {name} is that of no format", hint=f"Known are {endings}.")
    return local(place_in(system, name))


def _check_name(name: str) -> None:
    if not name or "/" in name or "\0" in name or name.startswith(HIDDEN):
        raise Refusal("BAD_NAME", f"a file cannot be called {name!r}", hint="Rename it; _ and . cannot come first.")


@contextmanager
def _incoming(folder: Path, name: str, chunks: Iterable[bytes]) -> Iterator[Path]:
    """Yield an uploaded file, under its name in a hidden folder, and remove what is left of it.

    The folder is created if it is not there. Folders left by killed uploads are removed, too. Raise
    Refusal TOO_LARGE or NOT_WRITTEN.
    """
    hidden = folder / f"{_HIDDEN_FOLDER}{secrets.token_hex(8)}"
    try:
        _remove_abandoned(folder)
        hidden.mkdir(parents=True)
        _write(hidden / name, chunks, name)
        yield hidden / name
    except OSError as error:
        raise Refusal(
            "NOT_WRITTEN",
            f"{name} cannot be stored in {folder}: {error.strerror or error}",
            file=name,
            hint="The user that the web pages run as needs to be allowed to write there.",
        ) from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    latest = time.time() - _ABANDONED_AFTER.total_seconds()
    for left in folder.glob(f"{_HIDDEN_FOLDER}*"):
        with suppress(FileNotFoundError):  # another upload removes it, too
            if left.is_dir() and not left.is_symlink() and left.stat().st_mtime < latest:
                shutil.rmtree(left, ignore_errors=True)


def _write(path: Path, chunks: Iterable[bytes], name: str) -> None:
    size = 0
    with path.open("xb") as stream:
        for chunk in chunks:
            size += len(chunk)
            if size > settings.BATCH_MAX_BYTES:
                raise Refusal(
                    "TOO_LARGE",
                    f"{name} has more than {settings.BATCH_MAX_BYTES >> 20} MB",
                    file=name,
                    hint="Put it into the system's folder by other means.",
                )
            stream.write(chunk)
