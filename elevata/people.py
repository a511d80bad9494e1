"""For whom a command acts."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from metadata.services.actor import Actor, acting_as


@contextmanager
def acting_for(token: str) -> Iterator[Actor]:
    """The token's person; the system without one. MetadataError: ``token_invalid``, ``token_expired``."""
    from metadata.services.tokens import token_in_use

    request_id = f"command-{uuid.uuid4().hex}"
    found = token_in_use(token) if token else None
    user, read_only = (found.user, found.is_read_only) if found else (None, False)
    with acting_as(user, by_token=True, request_id=request_id, read_only=read_only) as actor:
        yield actor
