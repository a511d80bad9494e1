"""Permission checks. Pages, API, commands and services ask here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse

from elevata.core.errors import MetadataError, as_sentence
from metadata.domain.roles import (
    PEOPLE_ONLY,
    ROLES,
    GrantedRole,
    Permission,
    Place,
    Role,
    allows,
    needed_role,
    permissions_of,
    roles_at,
)
from metadata.models import RoleGrant, ServiceAccount
from metadata.services.actor import current_actor

View = Callable[..., HttpResponse]
# A place, or how to find it out where somebody needs to know.
Where = Place | Callable[[], Place] | None
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
NO_ROLE = "Your account has no role yet, so there is nothing to see."
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
_GRANTED = "_granted_roles"
_HAS_GRANTS = "has_role_grants"
_IS_PROGRAM = "is_program"


def may(user: Any, permission: Permission | str, on: Where = None) -> bool:
    """Return whether the user (None: nobody) is active and has the permission, by role or as superuser.

    ``on`` is where it is to be done: a role granted for that place counts, too. Without it only roles
    that count everywhere do. A service account never has a permission of ``PEOPLE_ONLY``.
    """
    if user is None or not user.is_active:
        return False
    if _everywhere(user, Permission(permission)):
        return not _is_refused_to_programs(user, permission)
    granted = granted_to(user) if on is not None else ()
    given = bool(granted) and allows(granted, Permission(permission), on() if callable(on) else on)
    return given and not _is_refused_to_programs(user, permission)


def _everywhere(user: Any, permission: Permission) -> bool:
    """Return whether the user has the permission everywhere.

    Django gives superusers every permission; sensitive values take the role, so that it is recorded.
    """
    if permission is Permission.READ_SENSITIVE and user.is_superuser:
        return permission in permissions_of(roles_of(user))
    return user.has_perm(str(permission))


def may_somewhere(user: Any, permission: Permission | str) -> bool:
    """Return whether the user has the permission anywhere. Views check this; the service checks the place."""
    if may(user, permission):
        return True
    given = user is not None and bool(user.is_active) and allows(granted_to(user), Permission(permission))
    return given and not _is_refused_to_programs(user, permission)


def is_service_account(user: Any) -> bool:
    """Return True for the user of a program; asked once for a user in hand."""
    if not hasattr(user, _IS_PROGRAM):
        setattr(user, _IS_PROGRAM, ServiceAccount.objects.filter(user_id=user.pk).exists())
    return bool(getattr(user, _IS_PROGRAM))


def _is_refused_to_programs(user: Any, permission: Permission | str) -> bool:
    return permission in PEOPLE_ONLY and is_service_account(user)


def people_who_may(permission: Permission, place: Place | None = None) -> list[Any]:
    """Return users in use who have a permission, by a role everywhere or by one granted at ``place``; by name."""
    users = get_user_model().objects
    people_only = {"service_account": None} if permission in PEOPLE_ONLY else {}
    # With several ways to sign in, only one of them knows of roles.
    everywhere = list(users.with_perm(str(permission), backend=MODEL_BACKEND).filter(**people_only))
    if place is None:
        return sorted(everywhere, key=lambda person: person.get_username())
    granted = users.filter(is_active=True, role_grants__isnull=False, **people_only).exclude(
        pk__in=[one.pk for one in everywhere]
    )
    here = [person for person in granted.distinct() if may(person, permission, place)]
    return sorted([*everywhere, *here], key=lambda person: person.get_username())


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
    """Users who know whether they have roles for one place each, and whether they are programs: neither is asked."""
    own = {"user_id": OuterRef("pk")}
    return users.annotate(
        **{
            _HAS_GRANTS: Exists(RoleGrant.objects.filter(**own)),
            _IS_PROGRAM: Exists(ServiceAccount.objects.filter(**own)),
        }
    )


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
        as_sentence(needed_role(permission)),
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
    """Declare that everybody who reads metadata may do what the view does."""
    view.needs, view.needs_on = frozenset(), frozenset()
    return view


def without_role(view: View) -> View:
    """Declare that users without any role may use the view, too: all others refuse them."""
    view.open_without_role = True
    return for_everybody(view)


def needs_of(view: Any, method: str) -> frozenset[Permission] | None:
    """Return the permissions that a view declares: any of them is enough, an empty set means signed in.

    None: it does something and declares nothing, which a test refuses.
    """
    needs = getattr(view, "needs", None)
    if needs is None:
        return frozenset() if method in SAFE_METHODS else None
    methods = getattr(view, "needs_on", frozenset())
    return needs if not methods or method in methods else frozenset()
