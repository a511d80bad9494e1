"""For whom a command acts."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from metadata.services.actor import Actor, acting_as


@contextmanager
def acting_for(token: str) -> Iterator[Actor]:
    """The token's person; the system without one. MetadataError: ``token_invalid``, ``token_expired``."""
    from metadata.services.people import token_in_use

    request_id = f"command-{uuid.uuid4().hex}"
    user = token_in_use(token).user if token else None
    with acting_as(user, by_token=True, request_id=request_id) as actor:
        yield actor
