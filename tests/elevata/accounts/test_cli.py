"""Tests of the shared behaviour of the product's commands."""

import errno
import json
from io import StringIO

import pytest
from django.core.management import get_commands, load_command_class

from elevata.accounts.cli import ProductCommand, json_text, printable, program_error

OWN = sorted(name for name, app in get_commands().items() if app in ("metadata", "architecture", "loader"))


@pytest.mark.parametrize("name", OWN)
def test_command_overrides_no_private_method_of_product_command(name: str):
    command = type(load_command_class(get_commands()[name], name))
    assert issubclass(command, ProductCommand)
    frame = {inner for inner in vars(ProductCommand) if inner.startswith("_") and not inner.startswith("__")}
    between = [base for base in command.__mro__ if issubclass(base, ProductCommand) and base is not ProductCommand]
    assert not frame & {inner for base in between for inner in vars(base)}


class Terminal(StringIO):
    """Text stream with a given encoding."""

    def __init__(self, encoding: str | None) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str | None:
        return self._encoding


SAID = "größer: integer → bigint \U0001f600 \ud800"


def test_printable_escapes_characters_the_terminal_lacks():
    assert printable(SAID, Terminal("ascii")) == "gr\\xf6\\xdfer: integer -> bigint \\U0001f600 \\ud800"


@pytest.mark.parametrize("encoding", ["utf-8", None])
def test_printable_keeps_characters_the_terminal_supports(encoding: str | None):
    assert printable(SAID[:-1], Terminal(encoding)) == SAID[:-1]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_text_stays_valid_in_every_encoding(encoding: str):
    written = json_text({"said": SAID}, Terminal(encoding))
    assert json.loads(written.encode(encoding)) == {"said": SAID}


def test_command_names_a_full_disk():
    end = program_error(OSError(errno.ENOSPC, "No space left on device", "/data/broker/x"))
    assert end.code == "disk_full"
    assert "no space is left on a disk that the command writes to (/data/broker/x)" in str(end)
    assert program_error(OSError(errno.EIO, "failed")).code == "program_error"
