"""Page of error codes: ``python -m tests.repository.error_codes_page > docs/use/error_codes.md`` writes it."""

import re
from collections.abc import Iterator
from pathlib import Path

from elevata.core.errors import _STATUSES
from tests.repository.error_codes import Raised, raised

PAGE = Path(__file__).resolve().parents[2] / "docs" / "use" / "error_codes.md"
# Messages and hints of a code that the page shows; the others differ in details.
SHOWN = 2
_WORD = re.compile(r"[A-Za-z]{2,}")

# Class that carries the errors -> heading, introduction, status.
_SECTIONS = {
    "Refused": (
        "Change reports, approvals and executions",
        "A step of a report, an approval, a policy or an execution was refused. Nothing was written.",
        409,
    ),
    "MetadataError": (
        "Metadata, accounts and notifications",
        "A rule of metadata, of a user or of a setting was violated. The error names the field, and for an import file "
        "and line. Nothing was written.",
        422,
    ),
    "Refusal": (
        "Loads, sources, queries and maintenance",
        "A delivery or a run was refused. The error names file, row and column, with a count and samples where rows "
        "are the reason. The table keeps the state that it had.",
        422,
    ),
}
_RESPONSES = (
    "Requests",
    "A request was refused before a rule of the product was checked. Other codes of the REST API are those of its "
    "framework: `not_found`, `not_authenticated`, `permission_denied`, `method_not_allowed`, `invalid`, "
    "`parse_error`, `throttled`.",
    400,
)
_SECTIONS["Response"] = _RESPONSES
_SECTIONS["Problem"] = (
    "Proof of the change log and of artifacts",
    "`verify_audit`, `verify_export` and `verify_artifact` found that a row, a link of the chain or a file is not what "
    "was sealed.",
    409,
)
_BY_STATUS = {
    403: "Ask an administrator for a role that permits it.",
    404: "See the list of what exists.",
    409: "Reload the page or the object, then decide again.",
    412: "Reload the object, then repeat the change.",
    413: "Send less at once.",
    429: "Try again later.",
}
_BY_FAMILY = {
    "Refused": "See the page of the report.",
    "MetadataError": "Correct the named field and save again.",
    "Refusal": "Correct what the message names, then run again.",
    "Response": "Correct the request.",
    "Problem": "Compare with a backup: database or file was changed outside of elevata, or the audit key differs.",
}
# Meanings of codes whose messages are computed elsewhere than where they are raised.
MEANINGS = {
    "BLOCKED": "Changes of the dataset's structure wait for a decision of a user.",
    "DATASETS_FAILED": "Datasets of the load run failed, each for the reason on the run's page.",
    "DATA_LATE": "The data that a schedule waits for did not arrive in time.",
    "INCOMPLETE": "The API delivered fewer or other records than it counts.",
    "MISSING_FOLDER": "The folder of the system does not exist, or is no folder.",
    "MODEL_FAILED": "Spark cannot compute the SELECT of the model.",
    "NOT_DELIVERED": "The webhook could not be delivered.",
    "NO_SUCH_ENDPOINT": "The API has no such endpoint: it answered 404 or 410.",
    "NO_WORKER": "No worker is running.",
    "NOTHING_SELECTED": "A word of a selection selects no dataset.",
    "NOTHING_TO_LOAD": "No selected dataset can be loaded.",
    "NOT_ALLOWED": "The database, cluster or API refuses its user this access.",
    "NOT_A_BATCH_FILE": "The file has no format of history batches.",
    "NOT_PUBLISHED": "A name could not be published in the external catalog.",
    "QUALITY_STOPPED": "A quality check that stops loads has failed.",
    "RATE_LIMITED": "The API answers that it gets too many requests.",
    "RUN_FAILED": "The load run of a Fivetran write failed.",
    "bad_cron": "The schedule is no valid cron line.",
    "bad_key": "The key columns of the source cannot be ordered so.",
    "bad_paste": "The pasted text cannot be read as a table.",
    "bad_rows": "Several rows of one request are wrong, each for its own reason.",
    "bad_url": "The URL of the webhook is invalid or not permitted.",
    "export_changed": "The exported change log was changed since it was written.",
    "no_worker": "No worker is running.",
    "place_not_allowed": "The source's location is outside of the places that this installation permits.",
    "sql_refused": "The SELECT uses something that is not permitted.",
    "unsuitable_rule": "The rule for unknown parents does not fit the referenced dataset.",
}

_HEAD = """# Error codes

For users and programs: every code of an expected error, its HTTP status, its meaning and what to do. Pages show the \
message; REST has `code`, `detail` and `hint`; commands print them on one line, with `--json` as `error.code`. A code \
never changes, its message may. `…` stands for what differs from case to case. Codes of decisions and warnings of \
change reports are in [architecture control](architecture_control.md) and [its cases](../understand/cases.md), \
findings of `check_history` in [loading](loading.md).

`python -m tests.repository.error_codes_page > docs/use/error_codes.md` writes this page from the sources; a test \
fails when it is out of date."""


def page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([_HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    collected = raised()
    for family, (heading, introduction, status) in _SECTIONS.items():
        yield from ("", f"## {heading}", "", introduction, "")
        yield from ("| code | status | meaning | what to do |", "|---|---|---|---|")
        entries = (entry for (own, _), entry in collected.items() if own == family)
        for entry in sorted(entries, key=lambda each: each.code.lower()):
            yield _row(entry, family, entry.status or _STATUSES.get(entry.code, status))


def _row(entry: Raised, family: str, status: int) -> str:
    text = meaning(entry) or MEANINGS[entry.code]
    return f"| `{entry.code}` | {status} | {text} | {_listed(entry.hints) or _advice(family, status)} |"


def meaning(entry: Raised) -> str:
    """Return the messages of the sources as sentences; an empty text if all parts are computed."""
    return _listed(entry.messages)


def _advice(family: str, status: int) -> str:
    return _BY_FAMILY[family] if status == _SECTIONS[family][2] else _BY_STATUS.get(status, _BY_FAMILY[family])


def _listed(texts: list[str]) -> str:
    """Return the texts with the fewest computed parts, each as a sentence."""
    telling = [text for text in texts if len(_WORD.findall(text)) > 1]
    chosen = sorted(sorted(telling, key=lambda text: (text.count("…"), len(text)))[:SHOWN], key=texts.index)
    return " ".join(_sentence(text) for text in chosen)


def _sentence(text: str) -> str:
    plain = text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("`", "'")
    # Commands and names keep their case.
    begin = plain[:1].upper() if plain.split(" ")[0].rstrip(",;:.").isalpha() else plain[:1]
    return begin + plain[1:] + ("" if plain.endswith((".", "?", "!")) else ".")


if __name__ == "__main__":
    print(page(), end="")
