"""Generic views: detail, create, edit, delete and action pages.

An app declares rows, form, services, template and permissions; these views handle request and response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Manager, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.views import View

from elevata.accounts.permissions import Where, may, may_somewhere
from elevata.accounts.roles import Permission, needed_role
from elevata.core.errors import ProductError, StaleVersion, as_sentence
from elevata.web.conflict import conflict, continues_editing
from elevata.web.forms import EditForm, ProductForm, error_text
from elevata.web.requests import htmx_of

REFUSED, CONFLICT = 422, 409
UNCHANGED = "Nothing was changed."


class Page(View):
    """Page, or fragment of a page.

    A user needs one of ``permissions``; with (), every user with a role may send the form; None is for pages that only
    show something. ``place`` is the place of the permissions (None: anywhere), and ``methods`` are the HTTP methods
    that need them (empty: all). ``refusal`` replaces the message of the 403 page. ``part_template``, if set, is
    rendered for htmx.
    """

    http_method_names = ["get", "head", "post"]
    permissions: ClassVar[tuple[Permission, ...] | None] = None
    place: ClassVar[Where] = None
    methods: ClassVar[tuple[str, ...]] = ()
    refusal: ClassVar[str] = ""
    open_without_role: ClassVar[bool] = False
    template_name: ClassVar[str] = ""
    part_template: ClassVar[str] = ""

    @classmethod
    def as_view(cls, **options: Any) -> Callable[..., HttpResponseBase]:
        """Return the view function, with the permissions that ``needs_of`` reads."""
        view = super().as_view(**options)
        vars(view).update(
            needs=None if cls.permissions is None else frozenset(cls.permissions),
            needs_on=frozenset(cls.methods),
            open_without_role=cls.open_without_role,
        )
        return view

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if hasattr(self, (request.method or "").lower()) and not self.is_allowed(request):
            raise PermissionDenied(self.refusal or as_sentence(needed_role(*(self.permissions or ()))))
        return super().dispatch(request, *args, **kwargs)

    def is_allowed(self, request: HttpRequest) -> bool:
        return bool(self.methods and request.method not in self.methods) or self.is_open_to(request.user)

    @classmethod
    def is_open_to(cls, user: Any) -> bool:
        """Return True if the user has one of the permissions, or if there are none."""
        return not cls.permissions or any(
            may_somewhere(user, permission) if cls.place is None else may(user, permission, cls.place)
            for permission in cls.permissions
        )

    def context(self) -> dict[str, Any]:
        """Return the context of all templates of the page."""
        return {}

    def render(self, template: str = "", *, status: int = 200, **context: Any) -> HttpResponse:
        default = self.part_template if self.part_template and htmx_of(self.request) else self.template_name
        return render(self.request, template or default, self.context() | context, status=status)

    def add_message(self, message: str, links: Sequence[tuple[str, str]] = ()) -> None:
        """Add the message of a success, with links (labels and addresses)."""
        messages.success(self.request, with_links(message, links))


def route_of(request: HttpRequest) -> str:
    assert request.resolver_match is not None  # a view runs after its address was resolved
    return request.resolver_match.view_name


def with_links(message: str, links: Sequence[tuple[str, str]]) -> str:
    """Return a message with links after it (labels and addresses)."""
    parts = format_html_join("", ' <a href="{}">{}</a>', [(address, label) for label, address in links])
    return format_html("{}{}", message, parts) if links else message


class TemplatePage(Page):
    """Page that renders its template with its context."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        return self.render()


class RowPage(Page):
    """Base of pages about one row; the argument ``by`` of the address identifies it.

    The row is ``name`` in templates, and ``keyword`` (by default the same) in calls of services. ``page`` is the route
    of the row's own page.
    """

    model: ClassVar[Any] = None
    name: ClassVar[str] = "row"
    keyword: ClassVar[str] = ""
    by: ClassVar[str] = "key"
    page: str = ""

    def rows(self) -> QuerySet | Manager:
        """Return the rows that an address can identify."""
        return self.model._default_manager.all()

    def find(self) -> Any:
        return get_object_or_404(self.rows(), **{self.by: self.kwargs[self.by]})

    @cached_property
    def row(self) -> Any:
        return self.find()

    def address(self, row: Any) -> str:
        """Return the address of the row's own page."""
        return reverse(self.page, args=[getattr(row, self.by)])

    @property
    def row_argument(self) -> dict[str, Any]:
        """Return the row as the keyword argument of its services."""
        return {self.keyword or self.name: self.row}

    def context(self) -> dict[str, Any]:
        return super().context() | {self.name: self.row}


class DetailPage(RowPage, TemplatePage):
    """Page that shows one row."""


class FormPage(Page):
    """Page with a form: GET shows it; POST calls ``service`` with its values, adds ``message`` and redirects.

    Errors of the form or the service are shown in the form (422).
    """

    form_class: ClassVar[type[ProductForm]]
    service: ClassVar[Callable[..., Any]]
    message: ClassVar[str] = ""
    refused: int = REFUSED

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        """Return the arguments of the form besides its data."""
        return {}

    def initial_form(self) -> forms.Form:
        """Return the form that GET shows."""
        return self.form_class(**self.options())

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.show(self.initial_form())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        form = self.form_class(request.POST, **self.options())
        return self.process(form)

    def process(self, form: Any) -> HttpResponse:
        """Save the form and redirect, or show the form with its errors."""
        result = form.attempt(lambda: self.store(form))
        return self.show(form, status=self.refused) if result is None else self.after_save(form, result)

    def store(self, form: Any) -> Any:
        """Save the form; bases of an app extend it for all their pages."""
        return self.save(form)

    def save(self, form: Any) -> Any:
        """Call the service and return its row. A ProductError is shown in the form."""
        return self.service(**form.given())

    def after_save(self, form: Any, row: Any) -> HttpResponse:
        """Add the message, with a link to the row if it is a line of the page, and redirect."""
        if self.message:
            line = self.line(row)
            self.add_message(self.message.format(row=row), [("Show it", line)] if line else [])
        return redirect(self.address(row))

    def line(self, row: Any) -> str:
        """Return the address of the row's line on a page; empty for a row with a page of its own."""
        address = self.address(row)
        return address if "#" in address else ""

    def show(self, form: Any, *, status: int = 200) -> HttpResponse:
        return self.render(form=form, status=status)

    def address(self, row: Any) -> str:
        """Return the address of the redirect after saving."""
        raise NotImplementedError


class CreatePage(FormPage):
    """Page with the form of a new row; it redirects to the row's page ``page``."""

    page: ClassVar[str]
    page_by: ClassVar[str] = "key"
    message = "{row} was created."

    def address(self, row: Any) -> str:
        return reverse(self.page, args=[getattr(row, self.page_by)])


class EditPage(RowPage, FormPage):
    """Page with the form of a row. If another user saved the row meanwhile, both values are shown (409)."""

    form_class: ClassVar[type[EditForm]]
    message = "{row} was saved."
    overwrite: ClassVar[str] = "Overwrite with mine"

    def context(self) -> dict[str, Any]:
        return super().context() | {"back": self.address(self.row)}

    def initial_form(self) -> EditForm:
        return self.form_class.of(self.row, **self.options())

    def process(self, form: Any) -> HttpResponse:
        if continues_editing(self.request):
            return self.show(form)
        try:
            return super().process(form)
        except StaleVersion:
            self.row = self.find()
            return conflict(
                self.request,
                form=form,
                now=self.initial_form(),
                row=self.row,
                back=self.address(self.row),
                action=reverse(route_of(self.request), args=[getattr(self.row, self.by)]),
                verb=self.overwrite,
            )

    def save(self, form: Any) -> Any:
        return self.service(**self.row_argument, expected_version=form.edited_version, **form.changes())

    def after_save(self, form: Any, row: Any) -> HttpResponse:
        if form.changes():
            return super().after_save(form, row)
        messages.success(self.request, UNCHANGED)
        return redirect(self.address(row))


class DeletePage(EditPage):
    """Page that asks for confirmation and deletes the row, in the version that the user saw.

    It redirects to the list ``list_page``.
    """

    form_class = EditForm
    overwrite = "Delete anyway"
    list_page: ClassVar[str]

    def save(self, form: Any) -> Any:
        self.service(**self.row_argument, expected_version=form.edited_version)
        return self.row

    def after_save(self, form: Any, row: Any) -> HttpResponse:
        messages.success(self.request, self.message.format(row=row))
        return redirect(self.list_page)


class ActionPage(RowPage, FormPage):
    """Page with a form that starts an action for a row: a reason, a choice, or only the button."""

    form_class = ProductForm

    def act(self, form: Any) -> HttpResponse:
        """Call the service and return the redirect. A ProductError is shown in the form."""
        raise NotImplementedError

    def save(self, form: Any) -> HttpResponse:
        return self.act(form)

    def after_save(self, form: Any, row: HttpResponse) -> HttpResponse:
        return row


class ButtonPage(RowPage):
    """View of a button: POST calls the service and redirects; an error becomes a message on the row's page."""

    def act(self) -> str | None:
        """Call the service and return the address of the redirect; None for the row's own page."""
        raise NotImplementedError

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            address = self.act()
        except ProductError as error:
            messages.error(request, error_text(error, error.message))
            address = None
        return redirect(address or self.address(self.row))


class FormsPage(TemplatePage):
    """Page with several forms: the field ``do`` names the form, and ``actions`` maps the name to a method."""

    actions: ClassVar[Mapping[str, str]]

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        method = self.actions.get(request.POST.get("do", ""))
        if method is None:
            raise Http404
        return getattr(self, method)()

    def submit(self, name: str, form: ProductForm, save: Callable[[], Any], message: str) -> HttpResponse:
        """Save a form of the page, add the message and reload the page; ``name`` is the form's name in the template."""
        result = form.attempt(lambda: (save(),))
        if result is None:
            context: dict[str, Any] = {name: form}
            return self.render(status=REFUSED, **context)
        return self.reload(message.format(row=result[0]))

    def reload(self, message: str) -> HttpResponse:
        messages.success(self.request, message)
        return redirect(self.request.path)
