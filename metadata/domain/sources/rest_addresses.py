"""Addresses and requests of REST APIs: base URL, endpoint, query parameters, headers."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from elevata.core.errors import MetadataError
from metadata.domain.sources.database_locations import without_password
from metadata.domain.sources.locations import MAX_LENGTH, BadLocation, dated

_SCHEMES = {"https": 443, "http": 80}
_SHAPE = "like https://api.example.org/v1"
_ODD = re.compile(r"[\s\\{}|^`<>\"\x00-\x1f\x7f-\x9f]")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*", re.ASCII)
# Headers that the connection sets.
_CONNECTION_HEADERS = frozenset(
    (
        *("host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade"),
        *("expect", "accept-encoding", "range"),
    )
)
# Headers that an authentication or the connection sets.
_OWN_HEADERS = _CONNECTION_HEADERS | {"authorization", "proxy-authorization", "cookie"}
_CREDENTIAL_HEADER = re.compile(
    r"authorization|cookie|token|secret|passw|credential|(api|access|auth|app|subscription)[-_]?key|(^|[-_])auth($|[-_])",
    re.IGNORECASE,
)
_SECRET_PARAMETER = re.compile(r"token|key|secret|pass|pwd|auth|sig|credential|session|code", re.IGNORECASE)
_HIDDEN = "***"
_LONGEST_SHOWN = 300


@dataclass(frozen=True)
class ApiPlace:
    """Base URL of a REST API, from a system's location. ``path`` begins with a slash or is empty."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _SCHEMES[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def url(self, endpoint: str) -> str:
        """Return the URL of an endpoint below the base URL."""
        return f"{self}/{endpoint.strip('/')}" if endpoint.strip("/") else str(self)


def parse_api(location: str) -> ApiPlace:
    """Return the API at ``https://host/path``. Raise MetadataError ``password_in_location`` or ``bad_location``."""
    text = location.strip()
    odd = _ODD.search(text)
    if odd is not None:
        raise BadLocation(f"holds {odd[0]!r}; it is a URL {_SHAPE}")
    if without_password(text) != text or "@" in text.partition("://")[2].partition("/")[0]:
        raise MetadataError(
            "password_in_location",
            "holds a user or password. Name the user in the option user and the variable with the password below",
            "location",
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port or _SCHEMES.get(parts.scheme, 0)
    except ValueError:
        raise BadLocation(f"{location!r} is no URL; it is {_SHAPE}") from None
    if parts.scheme not in _SCHEMES or not host or len(text) > MAX_LENGTH:
        raise BadLocation(f"{location!r} is no base URL of an API; it is {_SHAPE}")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise BadLocation(f"has a query or fragment; parameters are an option of the source dataset. It is {_SHAPE}")
    path = parts.path.strip("/")
    _check_path(path)
    return ApiPlace(parts.scheme, host, port, f"/{path}" if path else "")


def check_endpoint(location: str) -> None:
    """Raise BadLocation for a text that is no path below an API's base URL; it may contain dates."""
    location = dated(location.strip(), datetime(2000, 12, 31, tzinfo=UTC))
    if len(location) > MAX_LENGTH:
        raise BadLocation(f"is longer than {MAX_LENGTH} characters")
    if "://" in location or location.startswith("//"):
        raise BadLocation("is a URL; an endpoint is a path below the system's base URL, like orders")
    if "?" in location or "#" in location:
        raise BadLocation("has a query or fragment; write parameters into the option parameters")
    _check_path(location.strip("/"))


def _check_path(path: str) -> None:
    odd = _ODD.search(path)
    if odd is not None:
        raise BadLocation(f"holds {odd[0]!r}; write it percent-encoded")
    if path and {"", ".", ".."} & set(path.split("/")):
        raise BadLocation("holds an empty segment, . or ..; write the whole path")


def parameters_of(text: Any) -> tuple[tuple[str, str], ...] | None:
    """Return names and values of query parameters like ``status=open&sort=id``; None for other text."""
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        return tuple(parse_qsl(text.strip(), keep_blank_values=True, strict_parsing=True, max_num_fields=100))
    except ValueError:
        return None


def headers_of(text: Any) -> tuple[tuple[str, str], ...] | None:
    """Return names and values of headers, one a line like ``X-Version: 2``; None for other text.

    Headers of the connection are no options. ``credential_header`` names one that carries a credential.
    """
    if not isinstance(text, str) or not text.strip():
        return None
    headers = []
    for line in text.strip().splitlines():
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        is_header = _HEADER_NAME.fullmatch(name) and name.lower() not in _CONNECTION_HEADERS
        if not colon or not is_header or not _HEADER_VALUE.fullmatch(value):
            return None
        headers.append((name, value))
    return tuple(headers)


def credential_header(text: Any) -> str:
    """Return the name of the first header that carries a credential, as its name says; empty without one."""
    return next((name for name, _ in headers_of(text) or () if _CREDENTIAL_HEADER.search(name)), "")


def is_header_name(name: Any) -> bool:
    """Return True for a header that an API key may be sent in."""
    return isinstance(name, str) and bool(_HEADER_NAME.fullmatch(name)) and name.lower() not in _OWN_HEADERS


def is_url(text: Any) -> bool:
    """Return True for a URL without user and fragment."""
    if not isinstance(text, str) or _ODD.search(text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and "@" not in parts.netloc and not parts.fragment
    except ValueError:
        return False


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL. Raise ValueError for one that is not HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(f"{shown_url(url)} is no URL of HTTP")
    return parts.scheme, parts.hostname, parts.port or _SCHEMES[parts.scheme]


def shown_url(url: str) -> str:
    """Return a URL for messages: without user, fragment and values of parameters that may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _HIDDEN
    address = (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, shown_parameters(parts.query), "")
    shown = urlunsplit(address)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def shown_parameters(query: str) -> str:
    """Return query parameters without the values of those that may be secrets."""
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(
        f"{name}={_HIDDEN}" if equals and _SECRET_PARAMETER.search(name) else f"{name}{equals}{value}"
        for name, equals, value in pairs
    )
