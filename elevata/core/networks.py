"""Network addresses that the product may connect to for a user who entered a host name.

Only global unicast addresses are permitted. Refused are private, loopback, link-local (metadata services of clouds),
shared, multicast, documentation and reserved addresses, and IPv6 addresses that embed an IPv4 address.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import inet_aton

from elevata.core.errors import MetadataError

Network = IPv4Network | IPv6Network


def networks(listed: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of a setting (``10.20.0.0/16``). Raise MetadataError ``bad_network`` for an invalid one."""
    parsed = []
    for text in (item.strip() for item in listed):
        if text:
            try:
                parsed.append(ip_network(text))
            except ValueError as error:
                raise MetadataError("bad_network", f"{text!r} is no network like 10.20.0.0/16: {error}") from None
    return tuple(parsed)


def is_listed(address: str, allowed: Iterable[Network]) -> bool:
    """Return True if a network contains the address; an IPv4-mapped IPv6 address counts as its IPv4 address."""
    parsed = _unmapped(address)
    return any(parsed.version == network.version and parsed in network for network in allowed)


def is_public(address: str) -> bool:
    """Return True for a global unicast address that is in no special-purpose registry of IANA."""
    parsed = _unmapped(address)
    if isinstance(parsed, IPv6Address) and parsed not in _GLOBAL_UNICAST:
        return False
    return not is_listed(address, _SPECIAL)


def is_address(host: str) -> bool:
    """Return True for a host that is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def canonical_host(host: str) -> str:
    """Return a host in one spelling, for a comparison: in lower case, without the dot of the root.

    Addresses are in their usual form, also those that only resolvers read (``127.1``, ``0x7f000001``); this machine is
    ``localhost``.
    """
    name = host.strip().strip("[]").lower().removesuffix(".")
    try:
        address = _unmapped(name)
    except ValueError:
        if not _OLD_ADDRESS.fullmatch(name):
            return _LOCALHOST if name.endswith(f".{_LOCALHOST}") or name in _LOCAL_NAMES else name
        try:
            address = IPv4Address(inet_aton(name))
        except OSError:
            return name
    return _LOCALHOST if address.is_loopback or address.is_unspecified else str(address)


_LOCALHOST = "localhost"
_LOCAL_NAMES = ("localhost.localdomain", "ip6-localhost", "ip6-loopback")
_OLD_ADDRESS = re.compile(r"(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+)){0,3}", re.ASCII)


def _unmapped(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


# All other IPv6 addresses are private, local, multicast, reserved, or embed an IPv4 address: NAT64 (64:ff9b::/96,
# 64:ff9b:1::/48), IPv4-compatible (::/96), IPv4-translated (::ffff:0:0:0/96), SRv6 (5f00::/16), 100::/64.
_GLOBAL_UNICAST = IPv6Network("2000::/3")

# IANA's special-purpose address registries for IPv4 and IPv6, with multicast, and two addresses that clouds use
# internally. Python's ``ipaddress`` is not used, because its registries are as old as its release.
_SPECIAL = networks(
    (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's services for its hosts
        "169.254.0.0/16",  # link-local; metadata of clouds
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT relays
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112, direct delegation
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved; broadcast
        "2001::/23",  # protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, remote identification
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, holds an IPv4 address
        "2620:4f:8000::/48",  # AS112, direct delegation
        "3ffe::/16",  # the retired 6bone
        "3fff::/20",  # documentation
    )
)
