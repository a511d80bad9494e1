"""Options of systems: one table, by the system's kind.

The check when a system is saved, its form and the table of the documentation come from ``SYSTEM_OPTIONS``.
"""

from collections.abc import Mapping
from typing import Any

from metadata.domain.sources.option_kinds import COUNT, TEXT, Kind, one_of
from metadata.domain.sources.options import Option, bad_option, check_values, select_options
from metadata.domain.sources.rest_addresses import is_header_name, is_url

REST_API = "rest"
NO_SIGN_IN, BEARER, API_KEY, BASIC, OAUTH2 = "none", "bearer", "api_key", "basic", "oauth2"
AUTHENTICATIONS = (NO_SIGN_IN, BEARER, API_KEY, BASIC, OAUTH2)
_HEADER = Kind("the name of a header like X-API-Key", is_header_name)
_URL = Kind("a URL like https://login.example.org/token", is_url)

SYSTEM_OPTIONS = (
    Option(
        "authentication",
        (REST_API,),
        one_of(*AUTHENTICATIONS),
        BEARER,
        "`oauth2`",
        "use of the secret: bearer token, api_key in a header, basic password, or oauth2 client secret. Without a "
        "secret none is sent",
    ),
    Option("header", (REST_API,), _HEADER, "X-API-Key", "`Api-Token`", "header of the API key", label="Key header"),
    Option(
        "user", (REST_API,), TEXT, None, "`reader`", "user of basic authentication, or client id of OAuth2", longest=200
    ),
    Option(
        "token_url",
        (REST_API,),
        _URL,
        None,
        "`https://login.example.org/token`",
        "address that gives OAuth2 tokens; its host must be allowed, too",
        label="Token URL",
        longest=1000,
    ),
    Option("scope", (REST_API,), TEXT, None, "`read:orders`", "scope of the OAuth2 token", longest=1000),
    Option(
        "requests_per_minute",
        (REST_API,),
        COUNT,
        None,
        "`300`",
        "limit of requests to the system, for all its endpoints together; by default none",
    ),
)
# Options that an authentication needs besides the secret.
_NEEDED = {BASIC: ("user",), OAUTH2: ("user", "token_url")}


def check_system_options(kind: str, given: Any, *, secret: str) -> None:
    """Raise MetadataError ``bad_option`` unless a system of this kind takes these options."""
    check_values(SYSTEM_OPTIONS, kind, given)
    authentication = given.get("authentication")
    for name in _NEEDED.get(authentication, ()):
        if name not in given:
            message = f"is needed with authentication {authentication}"
            raise bad_option(f"options.{name}", message)
    if authentication in _NEEDED and not secret:
        message = f"{authentication} needs the environment variable with its password"
        raise bad_option("options.authentication", message)


def system_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a REST system, with the defaults of those that are not given."""
    return {name: given.get(name, option.default) for name, option in select_options(SYSTEM_OPTIONS, REST_API).items()}
