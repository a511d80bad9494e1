"""For whom a command acts."""

import os
import pwd
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from metadata.services.actor import SYSTEM_KIND, Actor, acting_as


@contextmanager
def acting_for(token: str) -> Iterator[Actor]:
    """Act as the token's person; without one as the system, named after the account that runs the command.

    MetadataError: ``token_invalid``, ``token_expired``.
    """
    from metadata.services.tokens import token_in_use

    request_id = f"command-{uuid.uuid4().hex}"
    if not token:
        with acting_as(Actor("system", SYSTEM_KIND, request_id=request_id, shell_user=_shell_user())) as actor:
            yield actor
        return
    found = token_in_use(token)
    with acting_as(found.user, by_token=True, request_id=request_id, read_only=found.is_read_only) as actor:
        yield actor


def _shell_user() -> str:
    """Return the name of the account that this process runs as, or its number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
