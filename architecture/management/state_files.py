"""Reading the state files that commands are given. Needs no database."""

from pathlib import Path

from architecture.domain.states.state_files import ArchitectureState, parse_state
from elevata.core.cli import INVALID, CommandExit


def read_state(path: Path) -> ArchitectureState:
    """The state that a file holds. CommandExit if it cannot be read, StateProblem if it is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        said = getattr(problem, "strerror", None) or "is not UTF-8 text"
        raise CommandExit(INVALID, f"{path}: {said}", "unreadable") from None
    return parse_state(text, str(path))
