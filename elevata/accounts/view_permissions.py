"""Permissions of views: decorators, and the permissions that a view needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from elevata.accounts.permissions import SAFE_METHODS, Where, may, may_somewhere
from elevata.accounts.roles import (
    Permission,
    needed_role,
)
from elevata.core.errors import as_sentence

View = Callable[..., HttpResponseBase]


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
