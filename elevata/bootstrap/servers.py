"""Servers of the tests on this machine: a real PostgreSQL, a real Redis and a real browser."""

from elevata.bootstrap import system
from elevata.bootstrap.programs import PROGRAMS, missing


def test_servers() -> str:
    """Install those of the programs that are not there."""
    needed = missing()
    if needed:
        system.install(
            [PROGRAMS[name] for name in needed],
            why=f"the tests need {', '.join(needed)}",
            otherwise=f"install {', '.join(needed)}",
        )
        return f"installed {', '.join(needed)}"
    return "all there"
