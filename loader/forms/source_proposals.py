"""Forms of proposals to change a source's contract."""

from django import forms

from elevata.web.forms import ProductForm


class DismissForm(ProductForm):
    """Reason for dismissing a proposal."""

    reason = forms.CharField(
        max_length=1000,
        required=False,
        strip=True,
        help_text="Shown with the proposal and in the change log.",
    )
