"""Which addresses of a network may be asked on behalf of somebody who typed a name.

Everything that is not plainly public is refused: private, loopback, link-local (there the metadata of
clouds is), shared, multicast, reserved, and IPv6 addresses that hold one of these.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from metadata.domain.errors import MetadataError

Network = IPv4Network | IPv6Network


def networks(listed: Iterable[str]) -> tuple[Network, ...]:
    """Networks as settings list them (``10.20.0.0/16``). MetadataError ``bad_network`` for what is none."""
    found = []
    for text in (one.strip() for one in listed):
        if text:
            try:
                found.append(ip_network(text))
            except ValueError as error:
                raise MetadataError("bad_network", f"{text!r} is no network like 10.20.0.0/16: {error}") from None
    return tuple(found)


def is_listed(address: str, allowed: Iterable[Network]) -> bool:
    """Whether one of the networks holds the address, in the form in which it is used."""
    parsed = _unmapped(address)
    return any(parsed.version == network.version and parsed in network for network in allowed)


def is_public(address: str) -> bool:
    """Whether anybody on the internet could be asked at the address."""
    parsed = _unmapped(address)
    if is_listed(address, _NEVER) or (isinstance(parsed, IPv6Address) and parsed.is_site_local):
        return False
    odd = parsed.is_private or parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified
    return parsed.is_global and not (odd or parsed.is_multicast or parsed.is_reserved)


def _unmapped(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


# What counts as public by its number and is not, or leads to an IPv4 address that nobody judged.
_NEVER = networks(
    (
        "192.0.0.0/24",  # protocol assignments; the metadata of one cloud
        "192.88.99.0/24",  # relays
        "168.63.129.16/32",  # the host's own services in another
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
    )
)
