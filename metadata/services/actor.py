"""Current actor of the running code: a user, a user's token, or the system.

Pages, API and commands set it once around their work; threads start as the system. All services read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

PERSON, TOKEN, SYSTEM_KIND = "person", "token", "system"


@dataclass(frozen=True)
class Actor:
    """Actor of a change: ``kind`` is person (signed in), token (a program of a user) or system (no user).

    ``user`` is the user's row, None for the system; ``request_id`` identifies the request or command.
    ``read_only``: acts by a token with scope read. ``shell_user``: the server account that runs a command
    without a token.
    """

    name: str
    kind: str
    user: AbstractBaseUser | None = field(default=None, compare=False)
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
        """Return a change-log reason that names the shell user, or an empty text.

        The log's actor of a shell user is only ``system``.
        """
        return f"by the shell user {self.shell_user} on the server" if self.shell_user else ""

    @property
    def user_id(self) -> int | None:
        return None if self.user is None else self.user.pk

    @property
    def is_person(self) -> bool:
        """Return True if a user is accountable: signed in, or by their token."""
        return self.user is not None

    @classmethod
    def of(cls, user: object, *, by_token: bool = False, request_id: str = "", read_only: bool = False) -> Actor:
        """Return the actor of a user; None or an unauthenticated user gives the system."""
        if user is None or not getattr(user, "is_authenticated", False):
            return cls("system", SYSTEM_KIND, request_id=request_id)
        return cls(user.get_username(), TOKEN if by_token else PERSON, user, request_id, read_only)


SYSTEM = Actor("system", SYSTEM_KIND)
_who: ContextVar[Callable[[], Actor] | None] = ContextVar("who_acts", default=None)


def current_actor() -> Actor:
    """Return the current actor; the system if none was set."""
    who = _who.get()
    return SYSTEM if who is None else who()


@contextmanager
def acting(who: Callable[[], Actor]) -> Iterator[None]:
    """Set the function that returns the current actor inside of the block; it is called on demand."""
    before = _who.set(who)
    try:
        yield
    finally:
        _who.reset(before)


@contextmanager
def acting_as(
    person: object, *, by_token: bool = False, request_id: str = "", read_only: bool = False
) -> Iterator[Actor]:
    """Set the current actor inside of the block: a user, an Actor, or None for the system."""
    told = {"by_token": by_token, "request_id": request_id, "read_only": read_only}
    actor = person if isinstance(person, Actor) else Actor.of(person, **told)
    with acting(lambda: actor):
        yield actor
