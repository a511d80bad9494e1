"""WSGI entry point for gunicorn."""

import os

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")


class Request(WSGIRequest):
    """Request that is decoded as UTF-8, whatever charset it declares.

    Django would decode it with any codec of Python, even a compression, before a middleware could refuse it.
    ``elevata.web.middleware`` refuses requests with another charset.
    """

    def _set_content_type_params(self, meta: dict[str, str]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except ValueError:
            self.content_type, self.content_params = "", {"charset": "unknown"}


class Application(WSGIHandler):
    """WSGI handler of Django with the product's request class."""

    request_class = Request


django.setup(set_prefix=False)
application = Application()
