"""Load runs that wrote rows into a dataset. The loader knows them and provides the query.

The loader registers one port (``provide``), as it does for looking at the warehouse.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from architecture.models import Environment


class Port(Protocol):
    """Interface that the loader provides: ids of the runs that wrote after a time, oldest first, by dataset key."""

    def __call__(
        self, *, environment: Environment, dataset_keys: Collection[str], after: datetime
    ) -> Mapping[str, Sequence[str]]: ...


_port: Port | None = None


def provide(port: Port) -> None:
    """Set the port; the loader does so when the project starts."""
    global _port
    _port = port


def runs_that_wrote(
    *, environment: Environment, dataset_keys: Collection[str], after: datetime
) -> Mapping[str, Sequence[str]]:
    """The runs that wrote rows into these datasets, or their histories, after a time; keys without any are left out."""
    if _port is None:
        raise RuntimeError("nobody provides a way to tell which runs wrote rows")
    return _port(environment=environment, dataset_keys=dataset_keys, after=after) if dataset_keys else {}
