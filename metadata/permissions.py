"""Whether somebody may do something. Pages, API, commands and services ask here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse

from metadata.domain.errors import MetadataError
from metadata.domain.roles import ROLES, GrantedRole, Permission, Place, Role, allows, roles_at
from metadata.models import RoleGrant
from metadata.services.actor import current_actor

View = Callable[..., HttpResponse]
# A place, or how to find it out where somebody needs to know.
Where = Place | Callable[[], Place] | None
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
_GRANTED = "_granted_roles"
_HAS_GRANTS = "has_role_grants"


def may(user: Any, permission: Permission | str, on: Where = None) -> bool:
    """Whether the user (None: nobody) is in use and has the permission, by role or as superuser.

    ``on`` is where it is to be done: a role granted for that place counts, too. Without it only roles
    that count everywhere do.
    """
    if user is None or not user.is_active:
        return False
    if user.has_perm(str(permission)):
        return True
    granted = granted_to(user) if on is not None else ()
    return bool(granted) and allows(granted, Permission(permission), on() if callable(on) else on)


def may_somewhere(user: Any, permission: Permission | str) -> bool:
    """Whether the user has the permission anywhere. What lets people in; the service asks about the place."""
    return may(user, permission) or (
        user is not None and bool(user.is_active) and allows(granted_to(user), Permission(permission))
    )


def granted_to(user: Any) -> tuple[GrantedRole, ...]:
    """The roles a user has for one place each; asked once for a user in hand, as Django does with permissions."""
    if user is None or user.pk is None:
        return ()
    found = getattr(user, _GRANTED, None) if getattr(user, _HAS_GRANTS, True) else ()
    if found is None:
        found = tuple(row.as_rule() for row in RoleGrant.objects.filter(user_id=user.pk).select_related("schema"))
        setattr(user, _GRANTED, found)
    return found


def knowing_grants(users: QuerySet) -> QuerySet:
    """Users who know whether they have roles for one place each: who has none is asked for none."""
    return users.annotate(**{_HAS_GRANTS: Exists(RoleGrant.objects.filter(user_id=OuterRef("pk")))})


def roles_of(user: Any, on: Where = None) -> frozenset[Role]:
    """The roles a user was given, with those granted for the place; a superuser is an admin."""
    if user is None or user.pk is None:
        return frozenset()
    names = set(user.groups.values_list("name", flat=True))
    given = frozenset(role for role in ROLES if role.value in names)
    given |= {Role.ADMIN} if user.is_superuser else frozenset()
    granted = granted_to(user) if on is not None else ()
    return given | roles_at(granted, on() if callable(on) else on) if granted else given


def must_write() -> None:
    """MetadataError ``token_scope`` if who acts does so by a token that only reads."""
    if current_actor().read_only:
        raise MetadataError("token_scope", "the personal token may only read; make one that may write")


# --- what a view needs -------------------------------------------------------------------------


def permitted(permission: Permission, *, on: Where = None, methods: Iterable[str] = ()) -> Callable[[View], View]:
    """Decorates a view: 403 for those who lack the permission at a place, or who have it nowhere if none is named.

    ``methods`` are those that need it, all if none is named.
    """
    return only(
        lambda user: may_somewhere(user, permission) if on is None else may(user, permission, on),
        f"This needs the permission {permission}.",
        needs=frozenset({permission}),
        methods=methods,
    )


def only(
    allowed: Callable[[Any], bool], said: str, *, needs: frozenset[Permission], methods: Iterable[str] = ()
) -> Callable[[View], View]:
    """Decorates a view: 403, saying this, for people who are not allowed.

    ``needs`` declares what that comes to: any of these permissions (``needs_of`` tells it).
    """
    asked = frozenset(methods)

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if (not asked or request.method in asked) and not allowed(request.user):
                raise PermissionDenied(said)
            return view(request, *args, **kwargs)

        guarded.needs, guarded.needs_on = needs, asked
        return guarded

    return decorate


def for_everybody(view: View) -> View:
    """Declares that whoever is signed in may do what the view does, in so far as it does something."""
    view.needs, view.needs_on = frozenset(), frozenset()
    return view


def needs_of(view: Any, method: str) -> frozenset[Permission] | None:
    """What a view declares: any of these permissions, empty for nothing but being signed in.

    None: it does something and declares nothing, which a test refuses.
    """
    needs = getattr(view, "needs", None)
    if needs is None:
        return frozenset() if method in SAFE_METHODS else None
    methods = getattr(view, "needs_on", frozenset())
    return needs if not methods or method in methods else frozenset()
