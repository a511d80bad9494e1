"""Notices: the list behind the bell, how many are unread, and what somebody wants to be told of."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from metadata.forms.notices import NoticeChoiceForm, ReadForm
from metadata.notice_lists import KINDS, NoticeFilter, notices_of, unread_count
from metadata.permissions import for_everybody, may
from metadata.services.notices import choices_of, choose_events, mark_read
from metadata.services.webhooks import MANAGE
from metadata.views.paging import filtered

_MOST_SHOWN = 99


@never_cache
@require_safe
def notice_list(request: HttpRequest) -> HttpResponse:
    """Somebody's own notices, newest first."""
    chosen, page = filtered(request, NoticeFilter, notices_of(request.user))
    context = {
        "filter": chosen,
        "page": page,
        "kinds": KINDS,
        "unread": unread_count(request.user),
        "may_manage": may(request.user, MANAGE),
    }
    return render(request, "notices/notice_list.html", context)


@never_cache
@require_safe
def notice_bell(request: HttpRequest) -> HttpResponse:
    """Show the number of unread notices; requested after the page has loaded, so that no page waits for it."""
    unread = unread_count(request.user)
    context = {"unread": unread, "shown": f"{_MOST_SHOWN}+" if unread > _MOST_SHOWN else unread}
    return render(request, "parts/notice_bell.html", context)


@never_cache
@require_safe
def notice_go(request: HttpRequest, pk: int) -> HttpResponse:
    """Go to what a notice is about, which reads it."""
    notice = get_object_or_404(notices_of(request.user), pk=pk)
    mark_read(person=request.user, notice=notice)
    # Links are made by the product itself; none leads out of it, whatever came to stand there.
    inside = url_has_allowed_host_and_scheme(notice.event.link, allowed_hosts=None)
    return redirect(notice.event.link if inside else "notice_list")


@require_POST
@for_everybody
def notices_read(request: HttpRequest) -> HttpResponse:
    """One notice, or all, was read."""
    form = ReadForm(request.POST)
    wanted = form.cleaned_data.get("notice") if form.is_valid() else None
    if form.errors:
        return redirect("notice_list")
    notice = get_object_or_404(notices_of(request.user), pk=wanted) if wanted is not None else None
    mark_read(person=request.user, notice=notice)
    return redirect("notice_list")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@for_everybody
def notice_settings(request: HttpRequest) -> HttpResponse:
    """Edit which events the user wants in their list and by e-mail."""
    choice = choices_of(request.user)
    form = NoticeChoiceForm(
        request.POST if request.method == "POST" else None,
        initial={"listed": choice.listed, "emailed": choice.emailed, "address": request.user.email},
    )
    if request.method == "POST":
        saved = form.attempt(lambda: choose_events(person=request.user, **form.cleaned_data))
        if saved is not None:
            messages.success(request, "What you are told of is saved.")
            return redirect("notice_settings")
    context = {
        "form": form,
        "mails": settings.EMAIL_ENABLED,
        "may_manage": may(request.user, MANAGE),
    }
    return render(request, "notices/notice_settings.html", context, status=422 if form.errors else 200)
