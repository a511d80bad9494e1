"""Context of the frame around every page. Its values are computed when a template uses them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from architecture.selectors.inbox import Tasks, tasks_of
from elevata.accounts.access import who_helps
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.jobs.registry import live_workers
from elevata.page_help import help_of


@dataclass(frozen=True)
class NavItem:
    """Navigation item of a main page. ``active``: the address is this page or below it; ``here``: exactly this page."""

    label: str
    url: str
    icon: str
    active: bool
    here: bool


@dataclass(frozen=True)
class WorkerState:
    """State of the workers, with a sentence for users."""

    alive: bool
    text: str


# Main pages: label, route, icon, and prefixes of further addresses below the page.
_PAGES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("Home", "home", "home", ()),
    ("Datasets", "dataset_list", "database", ("/columns/", "/sensitive-data/")),
    ("Sources", "source_list", "plug", ("/systems/", "/add-source/")),
    ("SQL", "sql_page", "sql", ()),
    ("Load runs", "run_list", "player-play", ("/schedules/", "/leases/")),
    (
        "Changes",
        "report_list",
        "git-compare",
        ("/executions/", "/drift/", "/policies/", "/changes/", "/refreshes/", "/records/", "/health/"),
    ),
)


class Shell:
    """Frame of a page: navigation, worker state, environment, and the user's number of pending requests."""

    environment = settings.ENVIRONMENT

    def __init__(self, path: str, user: Any = None):
        self._path = path
        self._user = user

    @cached_property
    def nav(self) -> list[NavItem]:
        items = []
        for label, name, icon, also in _PAGES:
            url = reverse(name)
            is_current = self._path == url
            below = self._path.startswith((url, *also)) if url != "/" else False
            items.append(NavItem(label, url, icon, is_current or below, is_current))
        return items

    @cached_property
    def worker(self) -> WorkerState:
        """Return the state of the workers; queried once for a page."""
        names = [worker.name for worker in live_workers()]
        if not names:
            return WorkerState(False, "No worker is running. An administrator of this installation starts one.")
        return WorkerState(True, f"Answering: {', '.join(names)}")

    @cached_property
    def helpers(self) -> dict[str, Any]:
        """Return the contact of the installation, or names of administrators."""
        return who_helps()

    @cached_property
    def waiting(self) -> int:
        """Return the number of requests that wait for the signed-in user."""
        return self._tasks.count

    @property
    def waiting_page(self) -> str:
        """Return the page of the report that waits for the user, or the inbox if it is not the only request."""
        report_id = self._tasks.report_id
        return reverse("report_page", args=[report_id]) if report_id else reverse("inbox")

    @cached_property
    def _tasks(self) -> Tasks:
        return tasks_of(self._user)


class Can:
    """Permissions that the signed-in user has anywhere, for templates: ``can.change_metadata``."""

    _BY_NAME: ClassVar[dict[str, Permission]] = {permission.rpartition(".")[2]: permission for permission in Permission}

    def __init__(self, user: Any):
        self._user = user

    def __getattr__(self, name: str) -> bool:
        if name not in self._BY_NAME:
            raise AttributeError(name)
        return may_somewhere(self._user, self._BY_NAME[name])


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return ``shell``, ``can`` and ``page_help`` for the context of all templates."""
    user = getattr(request, "user", None)
    return {"shell": Shell(request.path, user), "can": Can(user), "page_help": help_of(request)}
