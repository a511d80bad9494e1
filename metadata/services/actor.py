"""Current actor: the user, their token, or the system itself. Every service asks here.

Pages, API and commands say it once, around everything they do; threads start as the system.
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
    """Actor of a change: ``kind`` is person (signed in), token (a person's program) or system (nobody).

    ``user`` is the person's row, None for the system; ``request_id`` names the request or command.
    ``read_only``: by a token whose scope is reading. ``shell_user``: the account on the server that runs a command
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
        """The actor as a sentence begins with it."""
        if self.shell_user:
            return f"The shell user {self.shell_user} on the server"
        return "The system" if self.user is None else self.name

    @property
    def reason(self) -> str:
        """Reason for the change log that names the actor, where the log's actor is only ``system``."""
        return f"by the shell user {self.shell_user} on the server" if self.shell_user else ""

    @property
    def user_id(self) -> int | None:
        return None if self.user is None else self.user.pk

    @property
    def is_person(self) -> bool:
        """True if a user is accountable for it: signed in, or by their token."""
        return self.user is not None

    @classmethod
    def of(cls, user: object, *, by_token: bool = False, request_id: str = "", read_only: bool = False) -> Actor:
        """The actor that a user is; nobody (None, or not signed in) is the system."""
        if user is None or not getattr(user, "is_authenticated", False):
            return cls("system", SYSTEM_KIND, request_id=request_id)
        return cls(user.get_username(), TOKEN if by_token else PERSON, user, request_id, read_only)


SYSTEM = Actor("system", SYSTEM_KIND)
_who: ContextVar[Callable[[], Actor] | None] = ContextVar("who_acts", default=None)


def current_actor() -> Actor:
    """Return the current actor; the system where none was set."""
    who = _who.get()
    return SYSTEM if who is None else who()


@contextmanager
def acting(who: Callable[[], Actor]) -> Iterator[None]:
    """Let ``who`` answer for everything inside; it is asked when somebody wants to know."""
    before = _who.set(who)
    try:
        yield
    finally:
        _who.reset(before)


@contextmanager
def acting_as(
    person: object, *, by_token: bool = False, request_id: str = "", read_only: bool = False
) -> Iterator[Actor]:
    """Everything inside is done by this person: a user, an Actor, or None for the system."""
    told = {"by_token": by_token, "request_id": request_id, "read_only": read_only}
    actor = person if isinstance(person, Actor) else Actor.of(person, **told)
    with acting(lambda: actor):
        yield actor
