"""Current actor: a user, a user's token, or the system.

Pages, API and commands set it around their work; new threads start as the system. All services read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


PERSON, TOKEN, SYSTEM_KIND = "person", "token", "system"


@dataclass(frozen=True)
class Actor:
    """Actor of a change: ``kind`` is person (signed in), token (a user's program) or system (no user).

    ``user`` is None for the system. ``request_id`` identifies the request or command. ``read_only`` is True for a token
    with scope read. ``shell_user`` is the server account that runs a command without a token.
    """

    name: str
    kind: str
    user: User | None = field(default=None, compare=False)
    request_id: str = ""
    read_only: bool = False
    shell_user: str = ""

    @property
    def described(self) -> str:
        """Return the actor as the subject of a sentence."""
        if self.shell_user:
            return f"The shell user {self.shell_user} on the server"
        return "The system" if self.user is None else self.name

    @property
    def reason(self) -> str:
        """Return a change-log reason that names the shell user; empty for other actors.

        The log's actor of a shell user is ``system``.
        """
        return f"by the shell user {self.shell_user} on the server" if self.shell_user else ""

    @property
    def user_id(self) -> int | None:
        return None if self.user is None else self.user.pk

    @classmethod
    def of(
        cls,
        user: User | AnonymousUser | None,
        *,
        by_token: bool = False,
        request_id: str = "",
        read_only: bool = False,
    ) -> Actor:
        """Return the actor of a user; the system for None and for an unauthenticated user."""
        if user is None or not user.is_authenticated:
            return cls("system", SYSTEM_KIND, request_id=request_id)
        return cls(user.get_username(), TOKEN if by_token else PERSON, user, request_id, read_only)


SYSTEM = Actor("system", SYSTEM_KIND)
_current: ContextVar[Callable[[], Actor] | None] = ContextVar("who_acts", default=None)


def current_actor() -> Actor:
    """Return the current actor; the system if none was set."""
    who = _current.get()
    return SYSTEM if who is None else who()


@contextmanager
def acting(who: Callable[[], Actor]) -> Iterator[None]:
    """Set the function that returns the current actor inside the block; it is called on demand."""
    before = _current.set(who)
    try:
        yield
    finally:
        _current.reset(before)


@contextmanager
def acting_as(
    user: User | AnonymousUser | Actor | None,
    *,
    by_token: bool = False,
    request_id: str = "",
    read_only: bool = False,
) -> Iterator[Actor]:
    """Set the current actor inside the block: a user, an Actor, or None for the system."""
    actor = (
        user
        if isinstance(user, Actor)
        else Actor.of(user, by_token=by_token, request_id=request_id, read_only=read_only)
    )
    with acting(lambda: actor):
        yield actor
