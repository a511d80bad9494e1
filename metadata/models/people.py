"""What people may do, and the tokens by which programs act for them."""

from django.db import models
from knox.models import AbstractAuthToken


class Right(models.Model):
    """No table: the permissions that ``metadata.domain.roles`` gives and that belong to no one model."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [
            ("change_metadata", "Can change metadata"),
            ("approve_reports", "Can approve and reject change reports"),
            ("execute_reports", "Can preview and execute change reports"),
            ("manage_policies", "Can change the policies of environments"),
            ("manage_people", "Can manage people, roles and tokens"),
        ]

    def __str__(self) -> str:
        return "right"


class PersonalToken(AbstractAuthToken):
    """A person's token: stored hashed, shown once, good until it expires.

    ``name`` tells a person's tokens apart; ``last_used_at`` is right to the minute.
    """

    name = models.CharField(max_length=100, blank=True, default="")
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["user", "created"]

    def __str__(self) -> str:
        return f"{self.user}: {self.name or 'token'}"
