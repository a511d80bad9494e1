"""Command that queries published tables and views."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any

from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, CommandExit, printable
from elevata.core.spreadsheets import csv_line
from elevata.jobs import states
from elevata.jobs.waiting import NoWorker
from loader.contract.refusals import Refusal
from loader.domain.queries.query_results import text_table, value_text
from loader.domain.queries.select_statements import INVALID as INVALID_QUERY
from loader.domain.queries.select_statements import MOST_ROWS, REFUSED, UNKNOWN
from loader.management.run_command import ReadingCommand
from loader.services.reads.queries import must_run
from loader.services.reads.read_requests import request_query

TABLE, CSV, JSON = "table", "csv", "json"
_NEVER_RUN = (REFUSED, INVALID_QUERY, UNKNOWN, "NOT_PERMITTED", "NO_TABLE")


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_ROWS:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_ROWS}")
    return int(text)


class Command(ReadingCommand):
    """Command to run one read-only SELECT over published names."""

    help = (
        "Run one read-only SELECT over published tables and views, in Spark's SQL. With the personal token in "
        "ELEVATA_TOKEN it is that user's query: sensitive columns are masked as on every page. Ends with 0, 1 if the "
        "query failed, 4 if it is refused or invalid, saying where."
    )
    with_json = False
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("query", metavar="SELECT", help='for example "SELECT count(*) FROM rawcore.rc_air_airport"')
        parser.add_argument("--format", choices=(TABLE, CSV, JSON), default=TABLE, help="default: table")
        parser.add_argument(
            "--limit", type=_limit, default=1000, metavar="N", help=f"most rows, up to {MOST_ROWS}; default: 1000"
        )
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, *, query: str, format: str, limit: int, local: bool, **options: Any) -> None:
        must_run(query, current_actor().user)
        try:
            with self.reading(local=local) as answer_of:
                read = answer_of(partial(request_query, query, limit, user=current_actor().user))
        except (NoWorker, Refusal) as unavailable:
            raise CommandExit(FAILED, unavailable.one_line(), unavailable.code) from unavailable
        if read.status != states.SUCCEEDED:
            error = Refusal.from_json(
                read.error or {"code": "UNEXPECTED", "message": "the query ended without a reason"}
            )
            raise CommandExit(INVALID if error.code in _NEVER_RUN else FAILED, error.one_line(), error.code)
        answer = read.answer or {}
        self.stdout.write(printable({TABLE: _table, CSV: _csv, JSON: _json}[format](answer), self.stdout), ending="")
        if answer["truncated"]:
            self.stderr.write(
                f"there are more rows than these {limit}; --limit takes up to {MOST_ROWS}", style_func=str
            )
        hidden = [f"{name}.{column}" for name, columns in answer["hidden"].items() for column in columns]
        if hidden:
            self.stderr.write(f"masked for you: {', '.join(hidden)}", style_func=str)


def _json(answer: dict[str, Any]) -> str:
    """Return an array with an object for each row; repeated column names become ``name``, ``name_2``, and so on."""
    names: list[str] = []
    for name in answer["columns"]:
        count = answer["columns"][: len(names)].count(name)
        names.append(f"{name}_{count + 1}" if count else name)
    rows = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in answer["rows"])
    return "[" + ",\n ".join(rows) + "]\n"


def _csv(answer: dict[str, Any]) -> str:
    return "".join(csv_line(map(value_text, row)) for row in (answer["columns"], *answer["rows"]))


def _table(answer: dict[str, Any]) -> str:
    return text_table(answer["columns"], [list(map(value_text, row)) for row in answer["rows"]])
