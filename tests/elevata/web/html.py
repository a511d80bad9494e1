"""Helpers that read pages."""

import re

from django.http import HttpResponse
from django.test import Client

_BLOCKS = (
    "html|head|body|meta|link|title|div|p|h[1-6]|ul|ol|li|table|thead|tbody|tr|td|th|section|nav|header|footer|main|"
    "form|fieldset|legend|dl|dt|dd|details|summary|br|option|noscript"
)
_VERBATIM = re.compile(r"(<(pre|textarea|script)\b.*?</\2>)", re.S)


def text_of(client: Client, address: str) -> str:
    return html_of(client.get(address))


def html_of(response: HttpResponse) -> str:
    """Return the HTML of a response without white space that is not rendered."""
    text = response.content.decode()
    if "html" not in response.headers.get("Content-Type", ""):
        return text
    parts = _VERBATIM.split(text)
    # The split alternates between text, a whole element and its name.
    between = [
        collapsed(part) if place % 3 == 0 else part if place % 3 == 1 else "" for place, part in enumerate(parts)
    ]
    return "".join(between)


def collapsed(html: str) -> str:
    """Return HTML without white space around blocks, and without places where names may break."""
    html = re.sub(r'<span class="parts">((?:[^<]|<wbr>)*)</span>', lambda match: match[1].replace("<wbr>", ""), html)
    html = re.sub(r"(\bvalue=\"[^\"]*\")|\s+", lambda match: match[1] or " ", html)
    html = re.sub(rf" ?(</?(?:{_BLOCKS})\b[^>]*>) ?", r"\1", html)
    html = re.sub(r"(<(?:a|button|label|svg|rect)\b[^>]*>) ", r"\1", html)
    return re.sub(r" (</(?:a|button|label|svg)>)", r"\1", html)
