"""Base class of all management commands.

Commands print errors as one line on stderr without a traceback, and return the result as the exit code. With
``--json`` they print exactly one JSON document on stdout, also on failure. Characters that the terminal's encoding
does not have are replaced.
"""

import errno
import json
import os
import pwd
import sys
import uuid
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser, handle_default_options
from django.db import InterfaceError, OperationalError, ProgrammingError, connections

from elevata.accounts.actors import SYSTEM_KIND, Actor, acting_as
from elevata.core.database import is_disk_full
from elevata.core.errors import ProductError
from elevata.core.installation import user_command

FAILED = 1
REFUSED = 2
INVALID = 4
INTERRUPTED = 130


TOKEN_VARIABLE = "ELEVATA_TOKEN"


def acting_user() -> AbstractContextManager[Actor]:
    """Act as the user whose personal token is in ``ELEVATA_TOKEN``; without one, as the system.

    Raise MetadataError ``token_invalid`` or ``token_expired`` on entry.
    """
    return acting_for(os.environ.get(TOKEN_VARIABLE, "").strip())


class CommandExit(CommandError):
    """Error that ends the command with an exit code and a one-line message, unless that is empty.

    ``code`` is a stable identifier for programs, which the JSON document has with the message.
    """

    def __init__(self, exit_code: int, message: str = "", code: str = "failed") -> None:
        super().__init__(message, returncode=exit_code)
        self.code = code


class ProductCommand(BaseCommand):
    """Base class of commands; subclasses define ``arguments`` and ``run``. Errors become exit codes.

    ``usage_exit`` is the exit code for wrong arguments, ``refused_exit`` that for a ProductError. ``takes_user`` is
    False for commands without an actor, which only start other commands or monitor.
    """

    usage_exit = INVALID
    refused_exit = FAILED
    with_json = True
    takes_user = True

    def arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, *args: Any, **options: Any) -> None:
        """Run the command. Raise CommandExit for an exit code other than 0."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Print a line of text; with ``--json`` to stderr, because stdout has the document."""
        out = self.stderr if self._as_json else self.stdout
        out.write(printable(text, out), style_func=str)

    def print_json(self, document: Any) -> None:
        """Print the JSON document, if ``--json`` is given."""
        if self._as_json and not self._printed:
            self._printed = True
            self.stdout.write(json_text(document, self.stdout))

    # --- implementation ----------------------------------------------------------------------

    _as_json = False
    _printed = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)

        def refuse(message: str) -> NoReturn:
            raise CommandExit(self.usage_exit, f"{message}; see {parser.prog} --help", "usage")

        parser.error = refuse  # type: ignore[method-assign]  # argparse has no other way to replace its exit
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        if self.with_json:
            parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
        self.arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self._as_json = bool(options.pop("json", False))
        self._printed = False
        try:
            with acting_user() if self.takes_user else nullcontext():
                self.run(**options)
        except CommandExit:
            raise
        except (OperationalError, InterfaceError, ProgrammingError) as error:
            raise CommandExit(FAILED, _database_problem(error), "database_down") from error
        except ProductError as error:
            # If the command may be refused, the message begins with the code, for programs and users.
            message = f"{error.code}: {error.one_line()}" if self.refused_exit == REFUSED else error.one_line()
            raise CommandExit(self.refused_exit, message, error.code) from error

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command like Django, with exit codes for errors."""
        self._called_from_command_line = True
        self._as_json = "--json" in argv[2:]
        # The option is read from the raw arguments, because parsing them may fail.
        show_traceback = "--traceback" in argv[2:]
        try:
            options = self.create_parser(argv[0], argv[1]).parse_args(argv[2:])
            handle_default_options(options)
            arguments = vars(options)
            self.execute(*arguments.pop("args", ()), **arguments)
        except KeyboardInterrupt:
            self._end(CommandExit(INTERRUPTED, "interrupted", "interrupted"))
        except BrokenPipeError:
            # The reader of the output closed it (``| head``).
            sys.stderr.close()
            sys.exit(FAILED)
        except CommandExit as end:
            if show_traceback and end.__cause__ is not None:
                raise
            self._end(end)
        except CommandError as error:
            if show_traceback:
                raise
            self._end(CommandExit(error.returncode, str(error)))
        except (OperationalError, InterfaceError) as error:
            self._end(CommandExit(FAILED, _database_problem(error), "database_down"))
        except Exception as error:
            if show_traceback:
                raise
            self._end(program_error(error))
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
    """Return a document as JSON; characters that the stream's encoding lacks become JSON escapes."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return text if printable(text, out) == text else json.dumps(document, indent=2)


def printable(text: str, out: Any) -> str:
    """Return the text with escapes for characters that the stream's encoding lacks, and ``->`` for arrows."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("→", "->").encode(encoding, "backslashreplace").decode(encoding)
    return text


def program_error(error: Exception) -> CommandExit:
    """Return the end of a command after an error that it does not expect, as of a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f" ({error.filename})" if error.filename else ""
        message = f"no space is left on a disk that the command writes to{place}: make room there, then run it again"
        return CommandExit(FAILED, message, "disk_full")
    message = f"{type(error).__name__}: {error} (an error of the program; --traceback shows where)"
    return CommandExit(FAILED, message, "program_error")


def _database_problem(error: Exception) -> str:
    message = " ".join(str(error).split())
    if "no such table" in message or "does not exist" in message and "relation" in message:
        return f"the control database has no tables yet: run `{user_command('setup')}` (or `manage.py migrate`) first"
    if is_disk_full(error):
        return f"no space is left on the disk of the control database, nothing was changed: {message}"
    return f"the control database does not answer: {message}"


@contextmanager
def acting_for(token: str) -> Iterator[Actor]:
    """Act as the token's user; without a token as the system, with the name of the server account.

    Raises MetadataError ``token_invalid`` or ``token_expired``.
    """
    from elevata.accounts.services.tokens import authenticate_token

    request_id = f"command-{uuid.uuid4().hex}"
    if not token:
        with acting_as(Actor("system", SYSTEM_KIND, request_id=request_id, shell_user=_shell_user())) as actor:
            yield actor
        return
    personal_token = authenticate_token(token)
    with acting_as(
        personal_token.user, by_token=True, request_id=request_id, read_only=personal_token.is_read_only
    ) as actor:
        yield actor


def _shell_user() -> str:
    """Return the name of the server account that runs this process, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
