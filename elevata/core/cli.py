"""Base of every command of the product.

Errors are one line on stderr without a traceback, exit codes say what happened, and ``--json``
prints exactly one JSON document on stdout, also when the command fails. No output fails for the
terminal's encoding.
"""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser, handle_default_options
from django.db import InterfaceError, OperationalError, ProgrammingError, connections

FAILED = 1
REFUSED = 2
INVALID = 4
INTERRUPTED = 130


TOKEN_VARIABLE = "ELEVATA_TOKEN"

# Says for whom a command acts; takes the personal token, "" for none. This module imports no app,
# so who knows the people says it at start (``elevata.apps``).
ActingPerson = Callable[[str], AbstractContextManager[Any]]
_acting_person: ActingPerson = lambda _: nullcontext()  # noqa: E731


def people_are_known_by(acting: ActingPerson) -> None:
    """Let ``acting`` find the person of a personal token from now on."""
    global _acting_person
    _acting_person = acting


def acting_person() -> AbstractContextManager[Any]:
    """Act as the person whose personal token stands in ``ELEVATA_TOKEN``; without one, as the system.

    Entering gives the actor, and raises MetadataError with code ``token_invalid`` or ``token_expired``.
    """
    return _acting_person(os.environ.get(TOKEN_VARIABLE, "").strip())


class CommandExit(CommandError):
    """End the command with this exit code and one line of explanation (none if it is empty).

    ``code`` is a stable word for programs; it stands in the JSON document beside the message.
    """

    def __init__(self, exit_code: int, message: str = "", code: str = "failed") -> None:
        super().__init__(message, returncode=exit_code)
        self.code = code


class ProductCommand(BaseCommand):
    """A command: subclasses have ``arguments`` and ``run``; errors are turned into exits here.

    ``usage_exit`` ends wrong arguments, ``refused_exit`` what a rule refused: any exception that
    can say itself in one line (``one_line()``, as MetadataError and Refusal do). ``takes_person``
    is false where nobody's doing it is: a command that starts others, or only watches.
    """

    usage_exit = INVALID
    refused_exit = FAILED
    with_json = True
    takes_person = True

    def arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, **options: Any) -> None:
        """Do it; CommandExit ends it with another code than 0."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """A line for people; with ``--json`` it goes to stderr, because stdout holds the document."""
        out = self.stderr if self._as_json else self.stdout
        out.write(printable(text, out), style_func=str)

    def print_json(self, document: Any) -> None:
        """The one JSON document, if it was asked for."""
        if self._as_json and not self._printed:
            self._printed = True
            self.stdout.write(json_text(document, self.stdout))

    # --- how it works ------------------------------------------------------------------------

    _as_json = False
    _printed = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)

        def refuse(message: str) -> NoReturn:
            raise CommandExit(self.usage_exit, f"{message}; see {parser.prog} --help", "usage")

        parser.error = refuse
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        if self.with_json:
            parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
        self.arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self._as_json = bool(options.pop("json", False))
        self._printed = False
        try:
            with acting_person() if self.takes_person else nullcontext():
                self.run(**options)
        except CommandExit:
            raise
        except (OperationalError, InterfaceError, ProgrammingError) as error:
            raise CommandExit(FAILED, _database_problem(error), "database_down") from error
        except Exception as error:
            if not hasattr(error, "one_line"):
                raise
            code, said = str(getattr(error, "code", "refused")), error.one_line()
            # Who was refused looks the code up, or acts on it.
            message = f"{code}: {said}" if self.refused_exit == REFUSED else said
            raise CommandExit(self.refused_exit, message, code) from error

    def run_from_argv(self, argv: list[str]) -> None:
        """Django's, but for how errors end it."""
        self._called_from_command_line = True
        self._as_json = "--json" in argv[2:]
        # Without arguments parsed, whether to show tracebacks can only be read off the line.
        show = "--traceback" in argv[2:]
        try:
            options = self.create_parser(argv[0], argv[1]).parse_args(argv[2:])
            handle_default_options(options)
            given = vars(options)
            self.execute(*given.pop("args", ()), **given)
        except KeyboardInterrupt:
            self._end(CommandExit(INTERRUPTED, "interrupted", "interrupted"))
        except BrokenPipeError:
            # Whoever read our output went away (``| head``): nothing is left to say.
            sys.stderr.close()
            sys.exit(FAILED)
        except CommandExit as end:
            if show and end.__cause__ is not None:
                raise
            self._end(end)
        except CommandError as error:
            if show:
                raise
            self._end(CommandExit(error.returncode, str(error)))
        except (OperationalError, InterfaceError) as error:
            self._end(CommandExit(FAILED, _database_problem(error), "database_down"))
        except Exception as error:
            if show:
                raise
            said = f"{type(error).__name__}: {error} (an error of the program; --traceback shows where)"
            self._end(CommandExit(FAILED, said, "program_error"))
        finally:
            connections.close_all()

    def _end(self, end: CommandExit) -> NoReturn:
        message = " ".join(str(end).split())
        if message:
            self.stderr.write(printable(message, self.stderr), style_func=str)
        if self.with_json and end.returncode:
            self.print_json({"error": {"code": end.code, "message": message.removeprefix(f"{end.code}: ")}})
        sys.exit(end.returncode)


def json_text(document: Any, out: Any) -> str:
    """A document as JSON that this stream can take: what its encoding lacks is escaped as JSON has it."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return text if printable(text, out) == text else json.dumps(document, indent=2)


def printable(text: str, out: Any) -> str:
    """``text`` as this stream can take it: what its encoding lacks is written in ASCII, arrows as ``->``."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("→", "->").encode(encoding, "backslashreplace").decode(encoding)
    return text


def _database_problem(error: Exception) -> str:
    said = " ".join(str(error).split())
    if "no such table" in said or "does not exist" in said and "relation" in said:
        return "the control database has no tables yet: run `make setup` (or `manage.py migrate`) first"
    return f"the control database does not answer: {said}"
