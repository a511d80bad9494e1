"""Hosts that sources may be read from: the entries of ELEVATA_SOURCE_HOSTS."""

import re
from collections.abc import Collection
from ipaddress import ip_network

from elevata.core.networks import Network
from loader.contract.refusals import Refusal

SETTING = "ELEVATA_SOURCE_HOSTS"
_PORT = re.compile(r"([^:]+|\[.*\]):(\d{1,5})")


def check_host(host: str, port: int, hosts: Collection[str]) -> None:
    """Raise Refusal HOST_NOT_ALLOWED unless ``hosts`` has the host, or host and port."""
    allowed = {entry.strip().lower() for entry in hosts if entry.strip()}
    if allowed & {host.lower(), f"{host.lower()}:{port}", f"[{host.lower()}]:{port}"}:
        return
    raise Refusal(
        "HOST_NOT_ALLOWED",
        f"{host} is no host that may be asked from here",
        hint=f"An administrator allows hosts in {SETTING} "
        f"({'now: ' + ', '.join(sorted(allowed)) if allowed else 'now: none'}).",
    )


def networks_of(hosts: Collection[str], port: int) -> tuple[Network, ...]:
    """Return the entries that are addresses or networks: ``10.20.0.0/16``, ``10.20.1.2``, ``10.20.1.2:8080``.

    An address with another port is left out.
    """
    networks = []
    for entry in hosts:
        text = entry.strip()
        match = _PORT.fullmatch(text)
        if match and int(match[2]) != port:
            continue
        try:
            networks.append(ip_network((match[1] if match else text).strip("[]")))
        except ValueError:
            continue  # the name of a host
    return tuple(networks)
