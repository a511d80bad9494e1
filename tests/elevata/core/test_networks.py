"""Tests of the network addresses that the server may call for a user."""

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.core.errors import MetadataError
from elevata.core.networks import canonical_host, is_listed, is_public, networks

REFUSED = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "0.1.2.3",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.0.192",
    "192.0.2.1",
    "168.63.129.16",
    "100.100.100.200",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    # Special-purpose blocks, some of which ipaddress calls global.
    "3fff::1",
    "3fff:fff:ffff::1",
    "5f00::1",
    "100:0:0:1::1",
    "2001:1::1",
    "2001:3::1",
    "2001:4:112::1",
    "2001:20::1",
    "2001:30::1",
    "2620:4f:8000::1",
    "3ffe::1",
    "192.31.196.1",
    "192.52.193.1",
    "192.175.48.1",
    "192.0.0.9",
    "192.88.99.1",
    # IPv4 addresses inside of IPv6 ones.
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::a9fe:a9fe",
    "2002:808:808::1",
    "4000::1",
    "8000::1",
]


@pytest.mark.parametrize("address", REFUSED)
def test_special_purpose_address_is_not_public(address: str):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "::ffff:8.8.8.8", "2606:2800:21f:cb07::1", "2001:200::1", "3ffd::1"]
)
def test_public_addresses_may_be_called(address: str):
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_ipv4_mapped_address_is_public_if_its_ipv4_address_is(address: IPv4Address):
    assert is_public(f"::ffff:{address}") == is_public(str(address))


@given(st.ip_addresses())
def test_private_address_is_never_public(address):
    if is_public(str(address)):
        parsed = ip_address(address)
        assert not (parsed.is_private and not getattr(parsed, "ipv4_mapped", None))


def test_listed_network_contains_its_addresses_and_their_mapped_forms():
    allowed = networks(["10.20.0.0/16", " fd00::/8 ", ""])
    assert is_listed("10.20.3.4", allowed)
    assert is_listed("::ffff:10.20.3.4", allowed)
    assert is_listed("fd00::7", allowed)
    assert not is_listed("10.21.0.1", allowed)


def test_network_with_host_bits_is_refused():
    with pytest.raises(MetadataError, match=r"10.20.0.1/16"):
        networks(["10.20.0.1/16"])


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("DB.Example.org.", "db.example.org"),
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("0x0a.0.0.7", "10.0.0.7"),
        ("167772167", "10.0.0.7"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
        ("LOCALHOST", "localhost"),
        ("db.localhost", "localhost"),
        ("127.1", "localhost"),
        ("0.0.0.0", "localhost"),
        ("::1", "localhost"),
        ("999.1.1.1.1", "999.1.1.1.1"),
        ("1.2.3.999", "1.2.3.999"),
    ],
)
def test_spellings_of_one_host_are_equal(host: str, canonical: str):
    assert canonical_host(host) == canonical
