"""Buttons of lists: save and delete a filter, choose columns, mark a favourite. Each returns to its page."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from elevata.lists.forms import ColumnsForm, FavouriteForm, ReturnForm, SaveFilterForm
from elevata.lists.models import SavedFilter
from elevata.lists.services import choose_columns, delete_filter, save_filter, set_favourite, unset_favourite
from elevata.web.requests import user_of
from elevata.web.views import Page, RowPage


def page_before(back: str) -> HttpResponse:
    """Redirect to the page that a form names by its path; to the home page if it names none or another host's."""
    is_path = back.startswith("/") and url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return HttpResponseRedirect(back if is_path else reverse("home"))


class Button(Page):
    """Button with a form: POST calls ``act`` and returns to the page; an error becomes a message there."""

    permissions = ()
    form_class: ClassVar[type[ReturnForm]]

    def act(self, *args: Any, **given: Any) -> str:
        """Call the service and return the message."""
        raise NotImplementedError

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        form = self.form_class(request.POST)
        message = form.attempt(lambda: self.act(**{name: form.cleaned_data[name] for name in self.arguments(form)}))
        if message is None:
            name, errors = next(iter(form.errors.items()))
            label = "" if name == NON_FIELD_ERRORS or form[name].is_hidden else f"{form[name].label}: "
            messages.error(request, f"Nothing was saved. {label}{errors[0]}")
        else:
            messages.success(request, message)
        return page_before(request.POST.get("back", ""))

    @staticmethod
    def arguments(form: ReturnForm) -> list[str]:
        return [name for name in form.cleaned_data if name != "back"]


class FilterSave(Button):
    """Button that saves the filters of a list under a name."""

    form_class = SaveFilterForm

    def act(self, **given: Any) -> str:
        return f"The filter {save_filter(owner=self.request.user, **given)} is saved."


class FilterDelete(RowPage):
    """Button that deletes one of the user's own filters."""

    permissions = ()

    def rows(self) -> QuerySet[SavedFilter]:
        return SavedFilter.objects.filter(owner=user_of(self.request))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        delete_filter(saved=self.row)
        messages.success(request, f"The filter {self.row.name} is deleted.")
        return page_before(request.POST.get("back", ""))


class ColumnsChoose(Button):
    """Button that chooses the columns of a list."""

    form_class = ColumnsForm

    def act(self, route: str, columns: Any, reset: bool) -> str:
        labels = None if reset else self.request.POST.getlist("columns")
        choose_columns(user=self.request.user, route=route, labels=labels)
        return "The columns are saved."


class FavouriteToggle(Button):
    """Button that marks a subject as a favourite, or removes the mark."""

    form_class = FavouriteForm

    def act(self, on: bool, **subject: Any) -> str:
        change: Callable[..., Any] = set_favourite if on else unset_favourite
        change(user=self.request.user, **subject)
        return "Added to your favourites." if on else "Removed from your favourites."
