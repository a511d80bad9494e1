"""Forms of users, roles and tokens."""

from typing import Any

from django import forms

from elevata.accounts.models import PersonalToken
from elevata.accounts.places import KINDS, known_places
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import LONGEST_DAYS, LONGEST_NAME
from elevata.web.forms import ProductForm, set_choices

# Purpose of each role, shown beside its checkbox.
ROLE_WORDS: dict[Role, str] = {
    Role.VIEWER: "Reads metadata and data. Sensitive values are masked. Every role includes this one.",
    Role.EDITOR: "Changes metadata.",
    Role.APPROVER: "Approves and rejects change reports of others.",
    Role.OPERATOR: "Previews and executes change reports, starts loads.",
    Role.STEWARD: "Reads personal, confidential and restricted values; each read is recorded. Lowers classifications.",
    Role.ADMIN: "Everything except a steward's rights, plus policies and users.",
}


class RolesForm(ProductForm):
    """Form with a checkbox for each role."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.order_fields(list(role_fields()))

    def chosen(self) -> list[Role]:
        return [role for name, role in role_fields().items() if self.cleaned_data.get(name)]

    def role_boxes(self) -> list[forms.BoundField]:
        """Return the checkboxes, for a template that renders them together."""
        return [self[name] for name in role_fields()]


def role_fields() -> dict[str, Role]:
    return {f"role_{role.value}": role for role in Role}


# One checkbox for each role.
for _name, _role in role_fields().items():
    RolesForm.base_fields[_name] = forms.BooleanField(label=_role.value, required=False, help_text=ROLE_WORDS[_role])


class NewUserForm(RolesForm):
    """Form of a new user, or of a service account if an owner is given."""

    name = forms.CharField(
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Sign-in name: letters, digits and @ . + - _ only.",
        error_messages={"required": "Enter a name."},
    )
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="The user replaces it at the first sign-in. Leave it empty for single sign-on.",
    )
    owner = forms.CharField(
        label="Responsible user",
        max_length=150,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "owners"}),
        help_text="Makes this a service account of that user. It cannot be changed later.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.order_fields(["name", "password", "owner"])

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if values.get("owner") and values.get("password"):
            self.add_error("password", "A service account has no password.")
        return values


class GrantForm(ProductForm):
    """Form of a grant: a role for one place."""

    role = forms.ChoiceField(
        choices=[(role.value, role.value) for role in Role],
        help_text="Role in this scope, in addition to global roles.",
    )
    place = forms.ChoiceField(
        label="Where",
        help_text="A layer or schema limits the role to its datasets.",
    )

    elsewhere = {"layer": "place", "schema": "place", "environment": "place"}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        set_choices(
            self, "place", [(f"{kind}:{name}", f"{kind} {name}") for kind in KINDS for name in known_places(kind)]
        )

    def given(self) -> dict[str, Any]:
        """Return the arguments of ``grant_role``."""
        kind, _, name = self.cleaned_data["place"].partition(":")
        return {"role": self.cleaned_data["role"], kind: name}


class TokenForm(ProductForm):
    """Form of a new token of the user, or of one of the user's service ``accounts``."""

    elsewhere = {"name": "label"}

    label = forms.CharField(
        label="Name",
        max_length=LONGEST_NAME,
        help_text="Purpose of the token.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "Enter a label."},
    )
    scope = forms.ChoiceField(
        choices=PersonalToken.Scope.choices,
        initial=PersonalToken.Scope.READ,
        help_text="A read token cannot change anything.",
    )
    days = forms.IntegerField(
        label="Expires after (days)",
        min_value=1,
        max_value=LONGEST_DAYS,
        initial=90,
        help_text=f"At most {LONGEST_DAYS} days.",
    )
    account = forms.ChoiceField(
        label="For", required=False, help_text="Your account, or a service account that you are responsible for."
    )

    def __init__(self, *args: Any, accounts: list[str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        if accounts:
            set_choices(self, "account", [("", "me"), *((name, name) for name in accounts)])
        else:
            del self.fields["account"]

    @property
    def chosen_account(self) -> str:
        """Return the name of the chosen service account; empty for the user's own account."""
        return self.cleaned_data.get("account", "")

    def given(self) -> dict[str, Any]:
        """Return the arguments of ``create_token``."""
        given = self.cleaned_data
        return {"name": given["label"], "days": given["days"], "scope": given["scope"]}


class PasswordForm(ProductForm):
    """Form of the user's new password, with the current one as confirmation."""

    old = forms.CharField(
        label="Current password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        help_text="Confirms it is you.",
        error_messages={"required": "Enter your current password."},
    )
    password = forms.CharField(
        label="New password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least eight characters, not a common password. Your other sessions end.",
        error_messages={"required": "Enter a new password."},
    )


class NewPasswordForm(ProductForm):
    """Form of a new password that an administrator sets for a user."""

    password = forms.CharField(
        label="New password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="The user must replace it at the next sign-in. Their sessions end; tokens stay valid. The user "
        "and all administrators are notified.",
        error_messages={"required": "Enter a new password."},
    )


class PreferenceForm(ProductForm):
    """Form of the settings of a user's own pages."""

    time_zone = forms.CharField(
        max_length=64,
        required=False,
        widget=forms.TextInput(attrs={"list": "time-zones", "placeholder": "the browser's"}),
        help_text="Zone of the times on pages, like Europe/Berlin. Times of data stay in UTC.",
    )
