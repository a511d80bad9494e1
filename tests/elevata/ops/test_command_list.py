"""List of commands that ``manage.py help`` prints."""

from elevata.command_list import command_list


def test_commands_of_the_product_come_first_with_a_line_each():
    text = command_list("manage.py")
    begin, _, following = text.partition("Other commands of elevata:")
    assert [line.split()[0] for line in begin.splitlines() if line.startswith("  ")][:2] == ["demo", "serve"]
    own, _, others = following.partition("Commands of Django and packages:")
    lines = [line for line in (begin + own).splitlines() if line.startswith("  ")]
    assert all(len(line.split()) > 2 for line in lines)
    assert "detect_file" in own
    assert "check_history" in own
    assert "runserver" in others
    assert "runserver" not in own
