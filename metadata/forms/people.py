"""Forms for users, their roles and tokens."""

from typing import Any

from django import forms

from metadata.domain.roles import Role
from metadata.forms.base import MetadataForm
from metadata.models import PersonalToken, TargetSchema
from metadata.services.tokens import LONGEST_DAYS, LONGEST_NAME

# What each role is for, beside its box.
ROLE_WORDS: dict[Role, str] = {
    Role.VIEWER: "Reads metadata and data. Sensitive values are masked. Every role includes this one.",
    Role.EDITOR: "Changes metadata.",
    Role.APPROVER: "Approves and rejects change reports of others.",
    Role.OPERATOR: "Previews and executes change reports, starts loads.",
    Role.STEWARD: "Reads personal, confidential and restricted values; each read is recorded. Lowers classifications.",
    Role.ADMIN: "Everything except a steward's rights, plus policies and users.",
}


class RolesForm(MetadataForm):
    """One box for each role."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.order_fields(list(role_fields()))

    def chosen(self) -> list[Role]:
        return [role for name, role in role_fields().items() if self.cleaned_data.get(name)]

    def role_boxes(self) -> list[forms.BoundField]:
        """The boxes alone, for a template that draws them together."""
        return [self[name] for name in role_fields()]


def role_fields() -> dict[str, Role]:
    return {f"role_{role.value}": role for role in Role}


# One for each role there is, whatever they are.
for _name, _role in role_fields().items():
    RolesForm.base_fields[_name] = forms.BooleanField(label=_role.value, required=False, help_text=ROLE_WORDS[_role])


class NewPersonForm(RolesForm):
    """Somebody new: a person, or a service account if an owner is named."""

    name = forms.CharField(
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="To sign in with: letters, digits and @ . + - _ only.",
        error_messages={"required": "Give a name."},
    )
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="They replace it at the first sign-in. Without one they sign in by single sign-on.",
    )
    owner = forms.CharField(
        label="Who answers for it",
        max_length=150,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "owners"}),
        help_text="The name of a person, for good: what the program does counts as theirs. Leave it empty for people.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.order_fields(["name", "password", "owner"])

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if given.get("owner") and given.get("password"):
            self.add_error("password", "A service account has no password.")
        return given


class GrantForm(MetadataForm):
    """A role for one place."""

    role = forms.ChoiceField(
        choices=[(role.value, role.value) for role in Role],
        help_text="What they may do there, besides what their roles let them do everywhere.",
    )
    place = forms.ChoiceField(
        label="Where",
        help_text="In a layer or schema: metadata, and reports about nothing else. In an environment: all.",
    )

    elsewhere = {"layer": "place", "schema": "place", "environment": "place"}

    def __init__(self, *args: Any, environments: list[str], **options: Any) -> None:
        super().__init__(*args, **options)
        layers = [(f"layer:{value}", f"layer {value}") for value in TargetSchema.Layer.values]
        schemas = [(f"schema:{name}", f"schema {name}") for name in TargetSchema.objects.values_list("name", flat=True)]
        named = [(f"environment:{name}", f"environment {name}") for name in environments]
        self.fields["place"].choices = [*named, *layers, *schemas]

    def chosen(self) -> dict[str, Any]:
        """The place as ``grant_role`` takes it."""
        kind, _, name = self.cleaned_data["place"].partition(":")
        return {kind: TargetSchema.objects.get(name=name) if kind == "schema" else name}


class TokenForm(MetadataForm):
    """A token to be made; ``accounts`` are whose it may be besides one's own."""

    elsewhere = {"name": "label"}

    label = forms.CharField(
        label="Name",
        max_length=LONGEST_NAME,
        help_text="What it is for, to tell tokens apart.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "Say what it is for."},
    )
    scope = forms.ChoiceField(
        choices=PersonalToken.Scope.choices,
        initial=PersonalToken.Scope.READ,
        help_text="One that reads changes nothing, whatever its person may.",
    )
    days = forms.IntegerField(
        label="Expires after (days)",
        min_value=1,
        max_value=LONGEST_DAYS,
        initial=90,
        help_text=f"At most {LONGEST_DAYS}; then a new one takes its place.",
    )
    account = forms.ChoiceField(label="For", required=False, help_text="You, or a service account that you answer for.")

    def __init__(self, *args: Any, accounts: list[str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        if accounts:
            self.fields["account"].choices = [("", "me"), *((name, name) for name in accounts)]
        else:
            del self.fields["account"]


class PasswordForm(MetadataForm):
    """A new password for oneself; the old one proves that it is oneself."""

    old = forms.CharField(
        label="Current password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        help_text="Confirms it is you.",
        error_messages={"required": "Give the password that you have now."},
    )
    password = forms.CharField(
        label="New password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Eight characters at least, nothing common. Other sessions of yours end.",
        error_messages={"required": "Give a new password."},
    )


class NewPasswordForm(MetadataForm):
    """A new password for somebody else."""

    password = forms.CharField(
        label="New password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="They replace it at the next sign-in, before anything else. Their sessions end; tokens stay valid. "
        "They and all other administrators are told.",
        error_messages={"required": "Give a new password."},
    )
