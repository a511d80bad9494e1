"""Options of a source, checked before a load: metadata may be older than the check, or come from a manifest."""

from collections.abc import Mapping
from typing import Any

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from metadata.domain.sources.reading_options import check_options, options_of


def check_source_options(source: str, format_name: str, given: Mapping[str, Any]) -> None:
    """Raise Refusal UNKNOWN_OPTION or BAD_OPTION unless the format takes these options."""
    known = options_of(format_name)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise Refusal(
            "UNKNOWN_OPTION",
            f"{source}: a source of format {format_name} has no option {', '.join(unknown)}",
            hint=f"Known are {', '.join(known)}.",
        )
    try:
        check_options(format_name, given)
    except MetadataError as problem:
        raise bad_option(source, problem) from None


def bad_option(source: str, problem: MetadataError, code: str = "BAD_OPTION") -> Refusal:
    """Return the refusal of a source for the option that ``problem`` names as its field."""
    option = problem.field.rpartition(".")[2]
    message = f"{source}: the option {option} {problem.message}"
    return Refusal(code, message, hint="Correct the option of the source dataset.")
