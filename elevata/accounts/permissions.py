"""Current actor, permission checks, places of grants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponseBase

from elevata.accounts.models import RoleGrant, ServiceAccount
from elevata.accounts.roles import (
    LAYERS,
    ROLES,
    USERS_ONLY,
    GrantedRole,
    Permission,
    Place,
    Role,
    allows,
    needed_role,
    permissions_of,
    roles_at,
)
from elevata.core.errors import MetadataError, as_sentence
from elevata.core.registry import Provided

# The current actor is a user, a user's token, or the system. Pages, API and commands set it around their work; new
# threads start as the system. All services read it.


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


View = Callable[..., HttpResponseBase]
# A place, or a function that returns it on demand.
Where = Place | Callable[[], Place] | None
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
NO_ROLE = "Your account has no role yet. Ask an administrator."
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
_GRANTED = "_granted_roles"
_HAS_GRANTS = "has_role_grants"
_IS_PROGRAM = "is_program"


def may(user: Any, permission: Permission | str, on: Where = None) -> bool:
    """Return True if the user is active and has the permission, by role or as superuser.

    ``on`` is the place of the action: roles granted for that place count, too. Without it, only global roles count. A
    service account never has a permission of ``USERS_ONLY``.
    """
    if user is None or not user.is_active:
        return False
    if _has_globally(user, Permission(permission)):
        return not _is_refused(user, permission)
    granted = granted_to(user) if on is not None else ()
    allowed = bool(granted) and allows(granted, Permission(permission), on() if callable(on) else on)
    return allowed and not _is_refused(user, permission)


def _has_globally(user: Any, permission: Permission) -> bool:
    """Return True if the user has the permission everywhere.

    Django gives superusers every permission. For sensitive values they need the role, whose grant is recorded.
    """
    if permission is Permission.READ_SENSITIVE and user.is_superuser:
        return permission in permissions_of(roles_of(user))
    return user.has_perm(str(permission))


def may_somewhere(user: Any, permission: Permission | str) -> bool:
    """Return True if the user has the permission anywhere. Views check this; services check the place."""
    if may(user, permission):
        return True
    allowed = user is not None and bool(user.is_active) and allows(granted_to(user), Permission(permission))
    return allowed and not _is_refused(user, permission)


def is_service_account(user: Any) -> bool:
    """Return True for a service account; cached on the user object."""
    if not hasattr(user, _IS_PROGRAM):
        setattr(user, _IS_PROGRAM, ServiceAccount.objects.filter(user_id=user.pk).exists())
    return bool(getattr(user, _IS_PROGRAM))


def _is_refused(user: Any, permission: Permission | str) -> bool:
    return permission in USERS_ONLY and is_service_account(user)


def readers() -> QuerySet:
    """Return the active users who read metadata: by a role for everything, or one for any place, as each has it."""
    users = get_user_model().objects
    everywhere = users.with_perm(str(Permission.READ_METADATA), backend=MODEL_BACKEND)
    return users.filter(Q(pk__in=everywhere.values("pk")) | Q(pk__in=RoleGrant.objects.values("user")), is_active=True)


def granted_to(user: Any) -> tuple[GrantedRole, ...]:
    """Return a user's grants; cached on the user object, like Django's permissions."""
    if user is None or user.pk is None:
        return ()
    roles = getattr(user, _GRANTED, None) if getattr(user, _HAS_GRANTS, True) else ()
    if roles is None:
        roles = tuple(row.as_rule() for row in RoleGrant.objects.filter(user_id=user.pk))
        setattr(user, _GRANTED, roles)
    return roles


def knowing_grants(users: QuerySet) -> QuerySet:
    """Return users with annotations: if they have grants, and if they are service accounts."""
    of_user = {"user_id": OuterRef("pk")}
    return users.annotate(
        **{
            _HAS_GRANTS: Exists(RoleGrant.objects.filter(**of_user)),
            _IS_PROGRAM: Exists(ServiceAccount.objects.filter(**of_user)),
        }
    )


def roles_of(user: Any, on: Where = None) -> frozenset[Role]:
    """Return a user's roles, including those granted for the place; a superuser is an admin."""
    if user is None or user.pk is None:
        return frozenset()
    names = set(user.groups.values_list("name", flat=True))
    roles = frozenset(role for role in ROLES if role.value in names)
    roles |= {Role.ADMIN} if user.is_superuser else frozenset()
    granted = granted_to(user) if on is not None else ()
    if on is None or not granted:
        return roles
    return roles | roles_at(granted, on() if callable(on) else on)


def must_write() -> None:
    """Raise MetadataError ``token_scope`` if the actor uses a read-only token."""
    if current_actor().read_only:
        raise MetadataError("token_scope", "the personal token may only read; make one that may write")


# --- permissions of views ----------------------------------------------------------------------


def permitted(permission: Permission, *, on: Where = None, methods: Iterable[str] = ()) -> Callable[[View], View]:
    """Return a decorator that returns 403 without the permission at ``on``, by default without it anywhere.

    ``methods`` are the HTTP methods that need it, by default all.
    """
    return only(
        lambda user: may_somewhere(user, permission) if on is None else may(user, permission, on),
        as_sentence(needed_role(permission)),
        needs=frozenset({permission}),
        methods=methods,
    )


def only(
    allowed: Callable[[Any], bool], message: str, *, needs: frozenset[Permission], methods: Iterable[str] = ()
) -> Callable[[View], View]:
    """Return a decorator that returns 403 with this message if the condition is not met.

    ``needs`` declares the corresponding permissions, of which any is enough (see ``needs_of``).
    """
    only_methods = frozenset(methods)

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if (not only_methods or request.method in only_methods) and not allowed(request.user):
                raise PermissionDenied(message)
            return view(request, *args, **kwargs)

        return declare(guarded, needs=needs, needs_on=only_methods)

    return decorate


def declare(view: View, **declared: Any) -> View:
    """Set attributes of a view function that ``needs_of`` and the middlewares read."""
    vars(view).update(declared)
    return view


def for_everybody(view: View) -> View:
    """Declare that a view is open to all users who read metadata."""
    return declare(view, needs=frozenset(), needs_on=frozenset())


def without_role(view: View) -> View:
    """Declare that users without any role may use the view; other views refuse them."""
    return for_everybody(declare(view, open_without_role=True))


def needs_of(view: Any, method: str) -> frozenset[Permission] | None:
    """Return the permissions that a view declares. Any of them is enough; if the set is empty, being signed in is.

    None for a view that writes without a declaration, which a test refuses.
    """
    needs: frozenset[Permission] | None = getattr(view, "needs", None)
    if needs is None:
        return frozenset() if method in SAFE_METHODS else None
    methods: frozenset[str] = getattr(view, "needs_on", frozenset())
    return needs if not methods or method in methods else frozenset()


# Kinds of places for which a role can be granted.


KINDS = ("environment", "layer", "schema")
# Functions that return the names of environments and of schemas.
ENVIRONMENT_NAMES: Provided[Callable[[], Iterable[str]]] = Provided("ENVIRONMENT_NAMES")
SCHEMA_NAMES: Provided[Callable[[], Iterable[str]]] = Provided("SCHEMA_NAMES")


def known_places(kind: str) -> list[str]:
    """Return the names of the places of a kind."""
    names = {"environment": ENVIRONMENT_NAMES.get, "layer": lambda: lambda: LAYERS, "schema": SCHEMA_NAMES.get}
    return list(names[kind]()())
