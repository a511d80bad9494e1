"""The people whom sessions speak of, each looked up once a request."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db.models import Exists, OuterRef

from metadata.models import TemporaryPassword
from metadata.permissions import knowing_grants

_HAS_TEMPORARY = "has_temporary_password"


class AccountBackend(ModelBackend):
    """Names and passwords as Django keeps them; who is looked up comes with whether any role is for one place."""

    def get_user(self, user_id: Any) -> Any:
        """The person of a session; None if there is none, or if they are out of use."""
        users = knowing_grants(get_user_model()._default_manager.filter(pk=user_id))
        temporary = TemporaryPassword.objects.filter(user_id=OuterRef("pk"))
        user = users.annotate(**{_HAS_TEMPORARY: Exists(temporary)}).first()
        return user if user is not None and self.user_can_authenticate(user) else None


def must_replace_password(user: Any) -> bool:
    """Return True for who signed in with a password that somebody else set."""
    known = getattr(user, _HAS_TEMPORARY, None)
    return TemporaryPassword.objects.filter(user_id=user.pk).exists() if known is None else bool(known)
