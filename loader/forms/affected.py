"""Form of a message to the owners of what a change or a failure affects."""

from django import forms

from elevata.web.forms import ProductForm
from loader.services.affected import LONGEST_NOTE


class NoteForm(ProductForm):
    """Note of a message."""

    note = forms.CharField(
        required=False,
        max_length=LONGEST_NOTE,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Each owner with an account gets one notice, which names what changes for them. Optional.",
    )
