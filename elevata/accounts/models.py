"""Roles and grants of users, service accounts and their owners, and tokens."""

from django.conf import settings
from django.db import models
from knox.models import AbstractAuthToken

from elevata.accounts.roles import GrantedRole, Role


class Right(models.Model):
    """Permissions of ``elevata.accounts.roles`` that belong to no model; it has no table."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [
            ("read_metadata", "Can read metadata, reports, load runs and the change log"),
            ("read_data", "Can read data"),
            ("read_sensitive", "Can read personal, confidential and restricted values"),
            ("change_metadata", "Can change metadata"),
            ("approve_reports", "Can approve and reject change reports"),
            ("execute_reports", "Can preview and execute change reports"),
            ("manage_policies", "Can change the policies of environments"),
            ("manage_users", "Can manage users, roles and tokens"),
            ("manage_webhooks", "Can manage webhooks and see what was sent to them"),
        ]

    def __str__(self) -> str:
        return "right"


class PersonalToken(AbstractAuthToken):
    """Personal token of a user: stored hashed, shown once, valid until it expires.

    ``name`` distinguishes a user's tokens; ``last_used_at`` is accurate to the minute. A token with scope ``read``
    changes nothing, whatever the permissions of its user.
    """

    class Scope(models.TextChoices):
        READ = "read", "Read"
        WRITE = "write", "Read and write"

    name = models.CharField(max_length=100, blank=True, default="")
    scope = models.CharField(max_length=5, choices=Scope, default=Scope.WRITE)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["user", "created"]

    def __str__(self) -> str:
        return f"{self.user}: {self.name or 'token'}"

    @property
    def is_read_only(self) -> bool:
        return self.scope == self.Scope.READ


class RoleGrant(models.Model):
    """Role of a user for one layer, one schema or one environment (``GrantedRole``)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants")
    role = models.CharField(max_length=10, choices=[(role.value, role.value.capitalize()) for role in Role])
    # Places are stored by name, because this app does not know the models of schemas and environments. The rename of
    # a schema changes its grants.
    layer = models.CharField(max_length=10, blank=True, default="")
    schema = models.CharField(max_length=100, blank=True, default="")
    environment = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        ordering = ["role", "layer", "schema", "environment"]
        constraints = [
            models.CheckConstraint(
                name="role_grant_for_one_place",
                condition=models.Q(layer="", schema="") & ~models.Q(environment="")
                | models.Q(layer="", environment="") & ~models.Q(schema="")
                | ~models.Q(layer="") & models.Q(schema="", environment=""),
                violation_error_message="A role is granted for one layer, one schema or one environment.",
            ),
            models.UniqueConstraint(fields=["user", "role", "layer", "schema", "environment"], name="role_grant_once"),
        ]

    def __str__(self) -> str:
        return f"{self.role} for {self.place}"

    @property
    def place(self) -> str:
        """Return the place in words."""
        if self.environment:
            return f"environment {self.environment}"
        return f"layer {self.layer}" if self.layer else f"schema {self.schema}"

    def as_rule(self) -> GrantedRole:
        return GrantedRole(Role(self.role), self.environment, self.layer, self.schema)


class ServiceAccount(models.Model):
    """User of a program, which acts by tokens and has no password; its owner is the responsible user.

    The four-eyes rule treats the account and its owner as one user, so the owner never changes.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="service_account"
    )
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="service_accounts")

    class Meta:
        ordering = ["user__username"]

    def __str__(self) -> str:
        return f"{self.user} of {self.owner}"


class TemporaryPassword(models.Model):
    """Mark of a password that an administrator set; the user must replace it first."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="temporary_password"
    )
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["user__username"]

    def __str__(self) -> str:
        return f"password of {self.user}, set by {self.set_by}"


class Preference(models.Model):
    """Settings of a user's pages. An empty time zone is the browser's."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="preference"
    )
    time_zone = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering = ["user__username"]

    def __str__(self) -> str:
        return f"preference of {self.user}"


class Identity(models.Model):
    """Identity of a user at a single sign-on provider: the subject, which never changes, unlike the e-mail."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    class Meta:
        ordering = ["issuer", "subject"]
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
