"""Template filter for the text of a comment."""

from django import template
from django.template.defaultfilters import linebreaksbr
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from elevata.comments.mentions import LINK, MENTION, Part, parts
from elevata.comments.models import Comment

register = template.Library()


@register.filter
def as_html(comment: Comment) -> SafeString:
    """Return a comment's text with line breaks, links and mentions; everything else is escaped."""
    known = {*comment.mentioned, *comment.unnotified}
    return format_html_join("", "{}", ((_html(part),) for part in parts(comment.text, known)))


def _html(part: Part) -> SafeString:
    if part.kind == LINK:
        return format_html('<a href="{0}" rel="nofollow noopener noreferrer">{0}</a>', part.text)
    if part.kind == MENTION:
        return format_html('<strong class="mention">{}</strong>', part.text)
    return linebreaksbr(escape(part.text))
