"""Users of single sign-on, identified by issuer and subject, and created at their first sign-in."""

import re
from typing import Any

from django.contrib.auth import get_user_model

from elevata.core.errors import MetadataError
from metadata.domain.roles import Role
from metadata.models import Identity
from metadata.permissions import roles_of
from metadata.services.common import writing
from metadata.services.people import create_person, ensure_person, link_identity

_LONGEST = 150
_NOT_IN_NAMES = re.compile(r"[^\w.@+-]+")


def person_of_identity(*, issuer: str, subject: str, name: str, email: str, roles: frozenset[Role] | None) -> Any:
    """Return the user of this subject, with exactly these roles; None leaves the roles as they are.

    A new user is called ``name``, else after the verified ``email``, else after the subject. A name that is
    taken is refused: an administrator links the accounts. Raises MetadataError: ``no_role`` if roles are
    given and empty, ``out_of_use``, ``name_taken``.
    """
    if roles is not None and not roles:
        raise MetadataError("no_role", "None of your groups has a role here. Ask whoever administers it for one.")
    with writing("single sign-on"):
        known = Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
        if known is None:
            return _made(issuer, subject, name or email.partition("@")[0] or subject, email, roles)
        if not known.user.is_active:
            raise MetadataError("out_of_use", "Your account here is out of use.")
        if roles is not None and roles_of(known.user) != roles and not known.user.is_superuser:
            return ensure_person(name=known.user.get_username(), roles=roles, announced=False)
        return known.user


def _made(issuer: str, subject: str, wanted: str, email: str, roles: frozenset[Role] | None) -> Any:
    name = _NOT_IN_NAMES.sub("-", wanted).strip("-")[:_LONGEST]
    if get_user_model().objects.filter(username__iexact=name).exists():
        said = f"There is somebody called {name} here already. If that is you, an administrator can link the two."
        raise MetadataError("name_taken", said)
    user = create_person(name=name, roles=roles or (), announced=False)
    if email:
        user.email = email
        user.save(update_fields=["email"])
    link_identity(user=user, issuer=issuer, subject=subject, announced=False)
    return user
