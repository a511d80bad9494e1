"""Forms of proposals to change a source's contract."""

from django import forms

from elevata.web.forms import MetadataForm


class DismissForm(MetadataForm):
    """Reason for dismissing a proposal."""

    reason = forms.CharField(
        max_length=1000,
        required=False,
        strip=True,
        help_text="Shown with the proposal and in the change log.",
    )
