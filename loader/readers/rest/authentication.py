"""Authentication of requests by a system's options and secret. Credentials go to the system's own host only."""

import json
import re
from base64 import b64encode
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

from dlt.sources.helpers.rest_client.auth import APIKeyAuth, BearerTokenAuth, HttpBasicAuth, OAuth2ClientCredentials
from requests import PreparedRequest, Session
from requests.auth import AuthBase

from elevata.core.secrets import fits_header
from loader.contract.manifest.sources import ApiSpec
from loader.readers.rest.refusals import RequestContext
from metadata.domain.sources.rest_addresses import origin_of
from metadata.domain.sources.system_options import API_KEY, BASIC, NO_SIGN_IN, OAUTH2, system_options

_LONGEST_EXPIRATION = 10 * 365 * 86_400  # seconds


class OwnHostOnly(AuthBase):
    """Authentication that is left out of requests to another scheme, host or port than the system's."""

    def __init__(self, origin: tuple[str, str, int], inner: AuthBase):
        self._origin, self._inner = origin, inner

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        is_own = origin_of(request.url or "") == self._origin
        return self._inner(request) if is_own else request


class ClientCredentials(OAuth2ClientCredentials):
    """OAuth2 client credentials; an answer without a token is refused."""

    context: Any = None

    def parse_access_token(self, response_json: Any) -> str:
        token = response_json.get("access_token") if isinstance(response_json, dict) else None
        if not isinstance(token, str) or not token:
            hint = "Correct the token URL and the scope in the system."
            raise self.context.refusal("SIGN_IN_REFUSED", "answered without an access token", hint)
        if not fits_header(token):
            hint = "Report it to the operator of the API."
            raise self.context.refusal("SIGN_IN_REFUSED", "answered with a token that no header can hold", hint)
        self.context.secrets = (*self.context.secrets, *spellings(token))
        return token

    def parse_expiration_in_seconds(self, response_json: Any) -> int:
        given = response_json.get("expires_in")
        is_number = isinstance(given, int | float) and 0 <= given <= _LONGEST_EXPIRATION
        return int(given) if is_number else self.default_token_expiration


def authentication_of(api: ApiSpec, session: Session, context: RequestContext) -> AuthBase | None:
    """Return the authentication of an API's requests, None if the system has none."""
    options = system_options(api.options)
    kind = options["authentication"]
    if kind == NO_SIGN_IN or not api.secret:
        return None
    return OwnHostOnly(api.place.origin, _inner(kind, options, api.password, session, context))


def _inner(kind: str, options: dict[str, Any], password: str, session: Session, context: RequestContext) -> AuthBase:
    if kind not in (BASIC, OAUTH2) and not fits_header(password):
        hint = "It may end with a line end or a space, which printf or echo -n do not write. Correct it, start again."
        raise context.refusal("BAD_SECRET", "needs a secret of printable characters, without spaces around it", hint)
    if kind == API_KEY:
        return APIKeyAuth(name=options["header"], api_key=password, location="header")
    if kind == BASIC:
        return HttpBasicAuth(username=options["user"], password=password)
    if kind == OAUTH2:
        credentials = ClientCredentials(
            access_token_url=options["token_url"],
            client_id=options["user"],
            client_secret=password,
            access_token_request_data={"scope": options["scope"]} if options["scope"] else {},
            session=session,
        )
        credentials.context = context
        return credentials
    return BearerTokenAuth(token=password)


def forms_of_secret(api: ApiSpec) -> tuple[str, ...]:
    """Return the secret of an API in each form in which requests carry it, so that no message repeats one."""
    secret = api.password
    if not secret:
        return ()
    user = system_options(api.options)["user"] or ""
    basic = b64encode(f"{user}:{secret}".encode()).decode()
    return (*spellings(secret), *spellings(basic))


def spellings(secret: str) -> tuple[str, ...]:
    """Return a text as URLs, JSON and HTML write it."""
    urls = (quote(secret), quote(secret, safe=""), quote_plus(secret))
    written = [json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
    written += [text.replace("/", r"\/") for text in written]
    pages = [escape(secret), escape(secret).replace("&#x27;", "&#39;")]
    pages += [text.replace("/", "&#x2F;").replace("=", "&#x3D;") for text in pages]
    lower = (re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), text) for text in urls)
    return tuple(dict.fromkeys((secret, *urls, *lower, *written, *pages)))


def credential_headers(api: ApiSpec) -> tuple[str, ...]:
    """Return the names of the headers that a redirect to another host must not carry."""
    return ("Authorization", "Cookie", system_options(api.options)["header"])
