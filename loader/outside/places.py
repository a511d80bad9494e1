"""Which places may be looked at: folders below the allowed roots, databases on the allowed hosts.

An editor may type any location. Without these limits a page would read the product's own secrets, or
knock at every door of the network it stands in.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings

from loader.domain.refusals import Refusal
from loader.outside.secrets import NoSecret, secret_named
from loader.services.manifests import stands_at
from metadata.domain.databases import DatabasePlace, check_secret_name, parse_database
from metadata.domain.errors import MetadataError
from metadata.models import System

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def folder_of(system: System) -> Path:
    """The folder of a system of files. Refusal NO_LOCATION, NOT_FROM_HERE or OUTSIDE_ROOTS."""
    if not system.location.strip():
        raise Refusal(
            "NO_LOCATION",
            f"{system} names no folder",
            hint="Edit the system and say where its files are.",
        )
    return allowed(system.location)


def place_in(system: System, location: str) -> Path:
    """A file or folder of a system by its location, relative to the system's or absolute."""
    own = location.strip()
    if ".." in own.split("/"):
        # Whatever the system's own location becomes later, this stays below it.
        raise Refusal("BAD_LOCATION", f"{location!r} leads upwards", hint="Write it without .. in it.")
    if own.startswith(("/", "{")) or _REMOTE.match(own) or not system.location.strip():
        return allowed(own)
    return allowed(f"{system.location.rstrip('/')}/{own}")


def allowed(location: str) -> Path:
    """The path with every link followed. Refusal if it leads out of the roots, whether it is there or not."""
    text = stands_at(location)
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif _REMOTE.match(text):
        scheme = text.partition(":")[0]
        raise Refusal(
            "NOT_FROM_HERE",
            f"{location} is a place that only the runner can reach ({scheme}:)",
            hint="These pages look at folders of this machine. Describe the source in YAML; loads will read it.",
        )
    try:
        path = Path(text).resolve()
    except (OSError, RuntimeError, ValueError):
        raise Refusal("BAD_LOCATION", f"{location!r} is no path", hint="Write it like /srv/deliveries/erp.") from None
    if not any(path.is_relative_to(root) for root in roots()):
        raise Refusal(
            "OUTSIDE_ROOTS",
            f"{location} is outside of the folders that sources may stand in",
            hint=f"Allowed are {', '.join(map(str, roots()))}. "
            "Whoever runs this installation sets them as ELEVATA_SOURCE_ROOTS.",
        )
    return path


def roots() -> list[Path]:
    """The folders below which files may be looked at, links followed."""
    return [Path(os.path.abspath(root)).resolve() for root in settings.SOURCE_ROOTS]


def database_of(system: System) -> DatabasePlace:
    """The database of a system. Refusal if its location cannot be read or its host is not allowed."""
    try:
        place = parse_database(system.location)
        check_secret_name(system.secret)
    except MetadataError as problem:
        raise Refusal(
            "BAD_LOCATION",
            f"{system}: {problem.message}" if system.location else f"{system} names no database",
            hint="Edit the system and correct it.",
        ) from None
    hosts = {host.strip().lower() for host in settings.SOURCE_HOSTS if host.strip()}
    if not hosts & {place.host.lower(), f"{place.host.lower()}:{place.port}"}:
        raise Refusal(
            "HOST_NOT_ALLOWED",
            f"{place.host} is no host that may be asked from here",
            hint="Whoever runs this installation lists such hosts in ELEVATA_SOURCE_HOSTS "
            f"({'now: ' + ', '.join(sorted(hosts)) if hosts else 'now: none'}).",
        )
    return place


def password_of(system: System) -> str:
    """The password that the system names (``secret_named``); empty if it names none. Never shown, never logged."""
    if not system.secret:
        return ""
    try:
        return secret_named(system.secret)
    except NoSecret as problem:
        raise Refusal(
            "SECRET_NOT_SET",
            f"{problem}, where the web pages run",
            hint="Set it for the web process and start that again, or correct the variable's name in the system.",
        ) from None
