"""Forms for comments."""

from django import forms
from django.urls import reverse_lazy

from elevata.comments.mentions import MAX_LENGTH
from elevata.web.forms import EditForm, ProductForm, TextField


class CommentFields(ProductForm):
    """Field of a comment's text; the script completes user names after ``@``."""

    text = TextField(
        label="Comment",
        max_length=MAX_LENGTH,
        widget=forms.Textarea(
            attrs={"rows": 3, "aria-autocomplete": "list", "data-mentions": reverse_lazy("comment_users")}
        ),
        help_text="Plain text for everyone who reads metadata. @name notifies a user.",
    )


class NewCommentForm(CommentFields):
    """Form of a new comment."""


class CommentForm(CommentFields, EditForm):
    """Form of an existing comment."""

    seen = ("text",)


class SuggestionForm(forms.Form):
    """Beginning of a user name that is being typed."""

    q = forms.CharField(required=False, max_length=150, help_text="The beginning of a user name.")
