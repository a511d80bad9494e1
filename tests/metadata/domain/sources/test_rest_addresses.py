"""Tests of base URLs, endpoints and displayed URLs of REST APIs."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.reading_options import check_options, shown_options
from metadata.domain.sources.rest_addresses import (
    check_endpoint,
    headers_of,
    origin_of,
    parameters_of,
    parse_api,
    shown_url,
)


@pytest.mark.parametrize(
    ("location", "url", "port"),
    [
        ("https://api.example.org", "https://api.example.org", 443),
        (" https://API.example.org:443/v1/ ", "https://api.example.org/v1", 443),
        ("http://10.0.0.1:8080/a/b", "http://10.0.0.1:8080/a/b", 8080),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]/x", 443),
    ],
)
def test_a_base_url_has_scheme_host_port_and_path(location, url, port):
    place = parse_api(location)
    assert (str(place), place.port) == (url, port)


@pytest.mark.parametrize(
    "location",
    [
        *("", "api.example.org", "ftp://api.example.org", "https://", "https://host:99999", "https://h/a?b=c"),
        *("https://h/a#b", "https://h/../a", "https://h/a b", "https://h\\evil/", "https://h/?"),
    ],
)
def test_invalid_base_url_is_refused(location):
    with pytest.raises(MetadataError) as refused:
        parse_api(location)
    assert (refused.value.code, refused.value.field) == ("bad_location", "location")


@pytest.mark.parametrize("location", ["https://reader@h/a", "https://reader:s3cret@h/a", "https://h/?password=x"])
def test_a_base_url_has_no_credentials(location):
    with pytest.raises(MetadataError) as refused:
        parse_api(location)
    assert refused.value.code == "password_in_location"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("orders", "https://h/v1/orders"),
        ("/a/b/", "https://h/v1/a/b"),
        ("/", "https://h/v1"),
        ("a%2Fb", "https://h/v1/a%2Fb"),
    ],
)
def test_an_endpoint_is_below_the_base_url(endpoint, url):
    check_endpoint(endpoint)
    assert parse_api("https://h/v1").url(endpoint) == url


def test_an_endpoint_may_contain_dates():
    check_endpoint("days/{date:%Y/%m/%d}/orders")


@pytest.mark.parametrize(
    "endpoint", ["https://other/x", "//other/x", "a/../b", "a//b", "a?b=c", "a#b", "a b", "a\\b", "{data}", "{date:%Q}"]
)
def test_invalid_endpoint_is_refused(endpoint):
    with pytest.raises(MetadataError):
        check_endpoint(endpoint)


def test_parameters_and_headers_are_read_in_order():
    assert parameters_of("a=1&b=&a=2%203") == (("a", "1"), ("b", ""), ("a", "2 3"))
    assert headers_of("X-A: 1\n  Accept: x; y:z ") == (("X-A", "1"), ("Accept", "x; y:z"))


@pytest.mark.parametrize(
    "name",
    ["Authorization", "Cookie", "X-API-Key", "apikey", "X-Auth-Token", "client_secret", "Ocp-Subscription-Key"],
)
def test_header_that_carries_a_credential_is_refused_and_not_repeated(name):
    with pytest.raises(MetadataError, match=f"names {name}, which carries a credential") as refused:
        check_options("rest", {"headers": f"X-Version: 2\n{name}: tok-correct-horse"})
    assert refused.value.field == "options.headers"
    assert "tok-correct-horse" not in refused.value.one_line()


@pytest.mark.parametrize("name", ["X-Version", "Accept", "X-Country-Code", "Idempotency-Key", "X-Author"])
def test_headers_without_credentials_are_accepted(name):
    check_options("rest", {"headers": f"{name}: 2"})


@pytest.mark.parametrize("options", [{"headers": "tok-correct-horse"}, {"parameters": "tok-correct-horse"}])
def test_option_error_does_not_repeat_the_given_text(options):
    with pytest.raises(MetadataError) as refused:
        check_options("rest", options)
    assert "tok-correct-horse" not in refused.value.one_line()


def test_shown_parameters_have_no_secrets():
    assert shown_options({"parameters": "status=open&api_key=abc"}) == {"parameters": "status=open&api_key=***"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h/a?page=2&api_key=abc&Sig=x#f", "https://h/a?page=2&api_key=***&Sig=***"),
        ("https://h/a?next_token=abc&flag", "https://h/a?next_token=***&flag"),
        ("https://[bad", "***"),
    ],
)
def test_shown_urls_have_no_secrets(url, shown):
    assert shown_url(url) == shown


def test_the_origin_is_scheme_host_and_port():
    assert origin_of("https://H/a") == ("https", "h", 443)
    assert origin_of("http://h:443/") != origin_of("https://h/")
    for url in ("ftp://h/", "file:///etc/passwd", "//h/a", "https://"):
        with pytest.raises(ValueError, match="no URL of HTTP"):
            origin_of(url)
