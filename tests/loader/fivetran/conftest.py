"""Server of the destination in this process, and a sender with the token of an operator and editor."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from elevata.accounts.actors import acting_as
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from loader.fivetran.server import Listener, serving
from tests.loader.fivetran.sender import Sender


@pytest.fixture
def landing(settings, tmp_path: Path) -> Path:
    """Return the permitted folder of batch files; kept batches are in a folder beside it."""
    settings.BATCH_FOLDER = str(tmp_path / "batches")
    settings.SOURCE_ROOTS = [str(tmp_path / "in")]
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def channel(transactional_db, landing: Path) -> Iterator[grpc.Channel]:
    with serving(Listener("127.0.0.1", 0)) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel


@pytest.fixture
def sender(channel: grpc.Channel, landing: Path) -> Sender:
    user = create_user(name="fay", roles=["operator", "editor"])
    with acting_as(user):
        return Sender(channel, landing, create_token(user=user)[1])
