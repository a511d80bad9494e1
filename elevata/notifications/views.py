"""Pages of notices and notification settings."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from elevata.accounts.permissions import may
from elevata.accounts.view_permissions import for_everybody
from elevata.lists.columns import Column
from elevata.notifications.forms import NoticeChoiceForm, ReadForm
from elevata.notifications.models import Notice
from elevata.notifications.selectors import KINDS, NoticeGroup, NoticeGroupFilter, groups_of, notices_of, unread_count
from elevata.notifications.services import MANAGE, choices_of, choose_events, mark_read
from elevata.web.list_pages import ListPage
from elevata.web.requests import user_of
from elevata.web.views import FormPage

MAX_SHOWN = 99
LATEST = 20


class NoticeList(ListPage):
    """List of the user's own notices by group, newest first; with ``?group=``, all notices of one group."""

    filterset = NoticeGroupFilter
    template_name = "notifications/notice_list.html"
    columns: ClassVar = (
        Column(
            "Event",
            {
                "event": "notice.event.title",
                "kind": "notice.event.kind",
                "notices": "count",
                "unread": "unread",
            },
            sort="event",
        ),
        Column("Environment", {"environment": "notice.event.environment"}, sort="environment"),
        Column("When", {"at": "notice.event.at"}, sort="at", descends=True),
    )

    def listed(self) -> Any:
        return notices_of(self.request.user)

    @property
    def is_group(self) -> bool:
        return "group" in self.request.GET

    def detailed(self, rows: Sequence[Notice]) -> Sequence[NoticeGroup]:
        if self.is_group:
            return [NoticeGroup(row, unread=int(row.read_at is None)) for row in rows]
        return groups_of(self.request.user, rows)

    def context(self) -> dict[str, Any]:
        user = self.request.user
        return super().context() | {
            "rows": self.detailed_page,
            "is_group": self.is_group,
            "kinds": KINDS,
            "read_states": (("true", "unread"), ("false", "read")),
            "unread": unread_count(user),
            "may_manage": may(user, MANAGE),
        }


@require_safe
def notice_bell(request: HttpRequest) -> HttpResponse:
    """Show the number of unread notices; loaded after the page, so that no page waits for it."""
    unread = unread_count(request.user)
    context = {"unread": unread, "shown": f"{MAX_SHOWN}+" if unread > MAX_SHOWN else unread}
    return render(request, "parts/notice_bell.html", context)


@require_safe
def notice_go(request: HttpRequest, pk: int) -> HttpResponse:
    """Mark a notice as read and redirect to the page of its event."""
    notice = get_object_or_404(notices_of(request.user), pk=pk)
    mark_read(user=request.user, notice=notice)
    # The links come from the product; a link to another host is not followed nevertheless.
    is_inside = url_has_allowed_host_and_scheme(notice.event.link, allowed_hosts=None)
    return redirect(notice.event.link if is_inside else "notice_list")


@require_POST
@for_everybody
def notices_read(request: HttpRequest) -> HttpResponse:
    """Mark one notice, those of a group, or all as read."""
    form = ReadForm(request.POST)
    if form.is_valid():
        pk = form.cleaned_data["notice"]
        notice = get_object_or_404(notices_of(request.user), pk=pk) if pk is not None else None
        mark_read(user=request.user, notice=notice, group=form.cleaned_data["group"])
    return redirect("notice_list")


class NoticeSettings(FormPage):
    """Page of the user's notification settings."""

    permissions = ()
    form_class = NoticeChoiceForm
    template_name = "notifications/notice_settings.html"
    message = "Notification settings saved."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        choice = choices_of(self.request.user)
        address = user_of(self.request).email
        return {"initial": {"listed": choice.listed, "emailed": choice.emailed, "address": address}}

    def context(self) -> dict[str, Any]:
        return {"mails": settings.EMAIL_ENABLED, "may_manage": may(self.request.user, MANAGE)}

    def save(self, form: NoticeChoiceForm) -> Any:
        return choose_events(user=self.request.user, **form.cleaned_data)

    def address(self, row: Any) -> str:
        return reverse("notice_settings")
