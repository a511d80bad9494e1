"""Users of single sign-on: identified by issuer and subject, and created at their first sign-in."""

import re
import unicodedata
from typing import Any

from django.contrib.auth import get_user_model

from elevata.accounts.models import Identity
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Role
from elevata.accounts.services.users import create_user, link_identity, set_roles
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError

_LONGEST, _LONGEST_SUBJECT, _LONGEST_EMAIL = 150, 255, 254
_NOT_IN_NAMES = re.compile(r"[^\w.@+-]+")


def user_of_identity(*, issuer: str, subject: str, name: str, email: str, roles: frozenset[Role] | None) -> Any:
    """Return the user of this subject, with exactly these roles; with None, the roles do not change.

    A new user has the name ``name``, or else the local part of ``email``, which is verified, or else the subject. If
    a user of this name exists, an administrator must link the accounts. Raises MetadataError: ``no_role`` for an empty
    set of roles, which a known user then has, ``out_of_use``, ``name_taken``, ``invalid``.
    """
    if len(subject) > _LONGEST_SUBJECT:
        raise MetadataError("invalid", f"The provider sent a subject of more than {_LONGEST_SUBJECT} characters.")
    with writing("single sign-on"):
        identity = Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
        user = identity.user if identity is not None else None
        if user is not None and not user.is_active:
            raise MetadataError("out_of_use", "Your account is inactive.")
        if user is not None and roles is not None and roles_of(user) != roles and not user.is_superuser:
            set_roles(user=user, roles=roles, announced=False)
        if user is None and roles != frozenset():
            return _create_sso_user(issuer, subject, name or email.partition("@")[0] or subject, email, roles)
    # Raised after the transaction, which takes the roles away.
    if roles is not None and not roles:
        raise MetadataError("no_role", "None of your groups has a role here. Ask an administrator.")
    return user


def _create_sso_user(issuer: str, subject: str, preferred_name: str, email: str, roles: frozenset[Role] | None) -> Any:
    # Names are stored in this form, in which letters of another width are the same.
    name = _NOT_IN_NAMES.sub("-", unicodedata.normalize("NFKC", preferred_name)).strip("-")[:_LONGEST]
    if get_user_model().objects.filter(username__iexact=name).exists():
        message = f"A user {name} already exists. If it is you, ask an administrator to link the accounts."
        raise MetadataError("name_taken", message)
    user = create_user(name=name, roles=roles or (), announced=False)
    if email and len(email) <= _LONGEST_EMAIL:
        user.email = email
        user.save(update_fields=["email"])
    link_identity(user=user, issuer=issuer, subject=subject, announced=False)
    return user
