"""The people whom sessions speak of, each looked up once a request."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend

from metadata.permissions import knowing_grants


class AccountBackend(ModelBackend):
    """Names and passwords as Django keeps them; who is looked up comes with whether any role is for one place."""

    def get_user(self, user_id: Any) -> Any:
        """The person of a session; None if there is none, or if they are out of use."""
        user = knowing_grants(get_user_model()._default_manager.filter(pk=user_id)).first()
        return user if user is not None and self.user_can_authenticate(user) else None
