"""Tests of the hosts that sources may be read from."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.hosts import check_host, networks_of


def test_hosts_are_compared_with_and_without_their_port():
    check_host("db", 5432, ["DB"])
    check_host("db", 5432, ["other", "db:5432"])
    for hosts in ([], ["db:5433"], ["d"]):
        with pytest.raises(Refusal) as refused:
            check_host("db", 5432, hosts)
        assert refused.value.code == "HOST_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("entry", "network"),
    [
        ("10.20.0.0/16", "10.20.0.0/16"),
        (" 10.20.1.2 ", "10.20.1.2/32"),
        ("10.20.1.2:443", "10.20.1.2/32"),
        ("::1", "::1/128"),
        ("[::1]:443", "::1/128"),
        ("2001:db8:0:0:0:0:0:5", "2001:db8::5/128"),
    ],
)
def test_networks_of_hosts_include_addresses_and_networks(entry, network):
    assert [str(subnet) for subnet in networks_of([entry], 443)] == [network]


@pytest.mark.parametrize("entry", ["db.example.org", "db.example.org:443", "10.20.1.2:444", ""])
def test_names_and_addresses_with_another_port_are_no_networks(entry):
    assert networks_of([entry], 443) == ()
