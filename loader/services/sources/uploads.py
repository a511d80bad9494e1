"""Files that users upload into the folder of a system."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from elevata.audit.services.change_log import record_change
from loader.domain.refusals import Refusal
from loader.sources.files import HIDDEN
from loader.sources.limits import folder_of, local, place_in
from metadata.domain.sources.formats import FORMATS, format_of
from metadata.models import System
from metadata.services.rows.subjects import KINDS


def store_upload(*, system: System, name: str, chunks: Iterable[bytes]) -> str:
    """Store an uploaded file in a system's folder and return its location there; a file that exists is kept.

    A folder that does not exist yet is created. The file appears under its name once it is complete, so that a load
    never reads a part of it. Raise Refusal BAD_NAME, UNKNOWN_FORMAT, FILE_EXISTS, TOO_LARGE or NOT_WRITTEN, and those
    of the system's folder.
    """
    folder, target = folder_of(system), _target(system, name)
    incoming = folder / f".upload-{secrets.token_hex(8)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        size = _write(incoming, chunks, name)
        os.link(incoming, target)
    except FileExistsError:
        raise Refusal(
            "FILE_EXISTS",
            f"{folder} has a file {name} already",
            file=name,
            hint="Rename the file, or choose the existing one from the list.",
        ) from None
    except OSError as error:
        raise Refusal(
            "NOT_WRITTEN",
            f"{name} cannot be stored in {folder}: {error.strerror or error}",
            file=name,
            hint="The user that the web pages run as needs to be allowed to write there.",
        ) from error
    finally:
        incoming.unlink(missing_ok=True)
    record_change(
        action="uploaded",
        subject_kind=KINDS[System],
        subject_key=system.short_name,
        subject_name=str(system),
        after={"file": name, "bytes": size},
    )
    return name


def _target(system: System, name: str) -> Path:
    """Return the path of a new file in the system's folder."""
    if not name or "/" in name or name.startswith(HIDDEN):
        raise Refusal("BAD_NAME", f"a file cannot be called {name!r}", hint="Rename it; _ and . cannot come first.")
    if not format_of(name):
        endings = ", ".join(ending for entry in FORMATS for ending in entry.endings)
        raise Refusal("UNKNOWN_FORMAT", f"the ending of {name} is that of no format", hint=f"Known are {endings}.")
    return local(place_in(system, name))


def _write(path: Path, chunks: Iterable[bytes], name: str) -> int:
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
    return size
