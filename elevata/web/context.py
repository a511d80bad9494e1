"""Context of the frame around every page. Computed when a template asks, so fragments cost nothing."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from architecture.inbox import count_for
from elevata.jobs.selectors import live_workers
from metadata.domain.roles import Permission
from metadata.permissions import may_somewhere


@dataclass(frozen=True)
class NavItem:
    """A main page. ``active``: the address is this page or below it; ``here``: exactly this page."""

    label: str
    url: str
    icon: str
    active: bool
    here: bool


@dataclass(frozen=True)
class WorkerState:
    """State of the workers, and a sentence about it."""

    alive: bool
    text: str


# What is below a main page, besides its own address, by the addresses' beginnings.
_PAGES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("Home", "home", "home", ()),
    ("Datasets", "dataset_list", "database", ()),
    ("Sources", "source_list", "plug", ("/systems/", "/register-system/")),
    ("Load runs", "run_list", "player-play", ("/schedules/", "/leases/")),
    (
        "Architecture",
        "report_list",
        "git-compare",
        ("/executions/", "/drift/", "/policies/", "/changes/", "/looks/", "/records/"),
    ),
)


class Shell:
    """Navigation, worker, environment and what waits, of one request."""

    environment = settings.ENVIRONMENT

    def __init__(self, path: str, user: Any = None):
        self._path = path
        self._user = user

    @cached_property
    def nav(self) -> list[NavItem]:
        found = []
        for label, name, icon, also in _PAGES:
            url = reverse(name)
            here = self._path == url
            below = self._path.startswith((url, *also)) if url != "/" else False
            found.append(NavItem(label, url, icon, here or below, here))
        return found

    @cached_property
    def worker(self) -> WorkerState:
        """Asked once for a page."""
        names = [worker.name for worker in live_workers()]
        if not names:
            return WorkerState(False, "No worker is answering. Start one with: make serve")
        return WorkerState(True, f"Answering: {', '.join(names)}")

    @cached_property
    def waiting(self) -> int:
        """Number of requests that wait for the signed-in user."""
        return count_for(self._user)


class Can:
    """Permissions of the signed-in user anywhere, for templates: ``can.change_metadata``."""

    _BY_NAME: ClassVar[dict[str, Permission]] = {permission.rpartition(".")[2]: permission for permission in Permission}

    def __init__(self, user: Any):
        self._user = user

    def __getattr__(self, name: str) -> bool:
        if name not in self._BY_NAME:
            raise AttributeError(name)
        return may_somewhere(self._user, self._BY_NAME[name])


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor: ``shell`` and ``can``."""
    user = getattr(request, "user", None)
    return {"shell": Shell(request.path, user), "can": Can(user)}
