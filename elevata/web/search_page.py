"""Search page, and its results for the dialog that every page has."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse

from elevata.web.requests import htmx_of
from elevata.web.search import MAX_TEXT, search
from elevata.web.views import REFUSED, Page

ON_PAGE, IN_DIALOG = 50, 20


class SearchForm(forms.Form):
    q = forms.CharField(
        max_length=MAX_TEXT,
        required=False,
        label="Search",
        help_text="Part of a name, a former name, a description or a tag, or a name like schema.dataset.column.",
        error_messages={"max_length": "A search text has at most %(limit_value)d characters."},
    )


class SearchPage(Page):
    """Results of the text ``q``; htmx gets them as options of the dialog's list."""

    http_method_names = ["get", "head"]
    template_name, part_template = "search/page.html", "search/options.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        form = SearchForm({"q": request.GET.get("q", "")})
        if not form.is_valid():
            return self.render(form=form, error=form.errors["q"][0], status=REFUSED)
        return self.render(form=form, **self._results(form.cleaned_data["q"]))

    def _results(self, text: str) -> dict[str, Any]:
        limit = IN_DIALOG if htmx_of(self.request) else ON_PAGE
        results, more = search(text, user=self.request.user, limit=limit)
        return {"text": text, "results": results, "more": more}
