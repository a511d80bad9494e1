"""Forms for saved filters, columns of lists and favourites."""

from django import forms

from elevata.web.forms import ProductForm


class ReturnForm(ProductForm):
    """Form that returns to the page from which it was sent."""

    back = forms.CharField(required=False, max_length=4000, widget=forms.HiddenInput)


class SaveFilterForm(ReturnForm):
    """Form that saves the filters of a list."""

    route = forms.CharField(max_length=60, widget=forms.HiddenInput)
    query = forms.CharField(required=False, max_length=2000, widget=forms.HiddenInput)
    name = forms.CharField(max_length=60, help_text="Your filter of this name is replaced.")
    shared = forms.BooleanField(required=False, help_text="Offered to all users of the list.")


class ColumnsForm(ReturnForm):
    """Form that chooses the columns of a list; ``reset`` returns to the list's own choice."""

    route = forms.CharField(max_length=60, widget=forms.HiddenInput)
    columns = forms.Field(
        required=False, widget=forms.SelectMultiple, help_text="Columns of the table and of its CSV file."
    )
    reset = forms.BooleanField(required=False, widget=forms.HiddenInput)


class FavouriteForm(ReturnForm):
    """Form that marks a subject as a favourite, or removes the mark."""

    subject_kind = forms.CharField(max_length=20, widget=forms.HiddenInput)
    subject_key = forms.UUIDField(widget=forms.HiddenInput)
    on = forms.BooleanField(required=False, widget=forms.HiddenInput)
