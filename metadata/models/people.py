"""Roles and grants of users, service accounts and their owners, and tokens."""

from django.conf import settings
from django.db import models
from knox.models import AbstractAuthToken

from metadata.domain.roles import GrantedRole, Role
from metadata.models.target import TargetSchema


class Right(models.Model):
    """No table: the permissions that ``metadata.domain.roles`` gives and that belong to no one model."""

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
            ("manage_people", "Can manage people, roles and tokens"),
            ("manage_webhooks", "Can manage webhooks and see what was sent to them"),
        ]

    def __str__(self) -> str:
        return "right"


class PersonalToken(AbstractAuthToken):
    """A person's token: stored hashed, shown once, good until it expires.

    ``name`` tells a person's tokens apart; ``last_used_at`` is right to the minute. One of the scope
    ``read`` changes nothing, whatever its person may.
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
    """A role that a person has for one layer, one schema or one environment (``GrantedRole``)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants")
    role = models.CharField(max_length=10, choices=[(role.value, role.value.capitalize()) for role in Role])
    layer = models.CharField(max_length=10, choices=TargetSchema.Layer, blank=True, default="")
    schema = models.ForeignKey(TargetSchema, on_delete=models.CASCADE, null=True, related_name="role_grants")
    # By name: what environments there are is not this room's business.
    environment = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        ordering = ["role", "layer", "schema__name", "environment"]
        constraints = [
            models.CheckConstraint(
                name="role_grant_for_one_place",
                condition=models.Q(layer="", schema=None) & ~models.Q(environment="")
                | models.Q(layer="", schema__isnull=False, environment="")
                | ~models.Q(layer="") & models.Q(schema=None, environment=""),
                violation_error_message="A role is granted for one layer, one schema or one environment.",
            ),
            models.UniqueConstraint(
                fields=["user", "role", "layer", "environment"],
                condition=models.Q(schema=None),
                name="role_grant_once",
            ),
            models.UniqueConstraint(
                fields=["user", "role", "schema"],
                condition=models.Q(schema__isnull=False),
                name="role_grant_of_schema_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} for {self.place}"

    @property
    def place(self) -> str:
        """The place as people read it."""
        if self.environment:
            return f"environment {self.environment}"
        return f"layer {self.layer}" if self.layer else f"schema {self.schema}"

    def as_rule(self) -> GrantedRole:
        schema = self.schema.name if self.schema is not None else ""
        return GrantedRole(Role(self.role), self.environment, self.layer, schema)


class ServiceAccount(models.Model):
    """A user that is a program: it has no password, acts by token, and a person answers for it, for good.

    For four eyes it and its owner are one, so the owner never changes: another one takes another account.
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
    """The password of this user was set by somebody else; the owner replaces it before doing anything else."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="temporary_password"
    )
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["user__username"]

    def __str__(self) -> str:
        return f"password of {self.user}, set by {self.set_by}"


class Identity(models.Model):
    """Identity of a user at a single sign-on provider: the subject, which never changes, not the e-mail."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    class Meta:
        ordering = ["issuer", "subject"]
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
