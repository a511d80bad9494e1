"""Forms of contracts and their exposures."""

from django import forms

from elevata.web.forms import MONO, EditForm, ProductForm, ReasonField, TextField
from metadata.models.exposures import KINDS


class ContractForm(EditForm):
    """Declaration of a dataset as a contract."""

    contract = forms.BooleanField(
        required=False,
        help_text="Promises columns, types, key and checks to consumers. A change that breaks it needs an approval.",
    )
    owner = forms.CharField(required=False, max_length=200, help_text="User or team that answers for the contract.")
    seen = ("contract", "owner")
    field_order = (*seen, "version")


class ExposureFields(forms.Form):
    """Fields of an exposure."""

    name = forms.CharField(
        max_length=200, help_text="Named in change reports.", error_messages={"required": "Enter a name."}
    )
    kind = forms.ChoiceField(choices=KINDS, help_text="What reads the dataset.")
    owner = forms.CharField(
        max_length=200,
        help_text="User or team to ask before the contract breaks.",
        error_messages={"required": "Enter an owner."},
    )
    link = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=MONO),
        help_text="An http address or a path.",
        error_messages={"required": "Enter an address or a path."},
    )
    description = TextField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="What the dataset is used for."
    )


class NewExposureForm(ExposureFields, ProductForm):
    """Form of a new exposure."""


class ExposureForm(ExposureFields, EditForm):
    reason = ReasonField(required=False)
    seen = ("name", "kind", "owner", "link", "description")
    field_order = (*seen, "reason", "version")
