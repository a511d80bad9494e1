"""What all of the product's commands have in common."""

import pytest
from django.core.management import get_commands, load_command_class

from elevata.cli import ProductCommand

OWN = sorted(name for name, app in get_commands().items() if app in ("metadata", "architecture", "loader"))


@pytest.mark.parametrize("name", OWN)
def test_a_command_replaces_nothing_that_the_frame_of_all_commands_needs(name: str):
    command = type(load_command_class(get_commands()[name], name))
    assert issubclass(command, ProductCommand)
    frame = {inner for inner in vars(ProductCommand) if inner.startswith("_") and not inner.startswith("__")}
    between = [one for one in command.__mro__ if issubclass(one, ProductCommand) and one is not ProductCommand]
    assert not frame & {inner for one in between for inner in vars(one)}
