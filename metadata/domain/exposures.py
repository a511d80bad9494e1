"""Exposures: consumers of datasets outside the warehouse."""

from urllib.parse import urlsplit

from elevata.core.errors import MetadataError

DASHBOARD, NOTEBOOK, FILE, APPLICATION = "dashboard", "notebook", "file", "application"
KINDS = {DASHBOARD: "Dashboard", NOTEBOOK: "Notebook", FILE: "File", APPLICATION: "Application"}
_WEB = ("http", "https")


def is_web_address(link: str) -> bool:
    """Return True for a link that pages may offer to follow."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme in _WEB and bool(parts.netloc)


def check_link(link: str) -> None:
    """Raise MetadataError unless the link is an http address or a path."""
    if not link.strip() or link != link.strip() or not link.isprintable():
        raise MetadataError("invalid", "needs an http address or a path", "link")
    if ":" in link.partition("/")[0] and not is_web_address(link):
        raise MetadataError("invalid", "must be an http address or a path", "link")
