"""Command that compares sources with their contracts."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.services.sources.checks import SourceCheck, check_source
from loader.services.sources.proposals import open_changes
from metadata.models import SourceDataset


class Command(ProductCommand):
    """Command to check sources, by default all that are in use."""

    help = (
        "Read the schema of sources now and compare it with their contracts. A difference becomes the open proposal of "
        "its source. Ends with 0 if all agree, 1 if one differs or cannot be read, 4 for an unknown source."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sources", nargs="*", metavar="SOURCE", help="SYSTEM.NAME of a source dataset")

    def run(self, *, sources: list[str], **options: Any) -> None:
        user = current_actor().user
        if user is not None and not may(user, Permission.CHANGE_METADATA):
            raise MetadataError("not_permitted", f"checking sources needs the editor role, {user}")
        results = [self._check(source) for source in _chosen(sources)]
        self.print_json({"sources": [result.as_json() for result in results]})
        differing = sum(result.proposal is not None for result in results)
        refused = sum(result.error is not None for result in results)
        if differing or refused:
            message = [f"{differing} of {len(results)} sources differ"] if differing else []
            message += [f"{refused} could not be read"] if refused else []
            raise CommandExit(FAILED, "; ".join(message), "differs" if differing else "refused")
        self.say(f"{len(results)} sources checked, all agree with their contracts")

    def _check(self, source: SourceDataset) -> SourceCheck:
        result = check_source(source=source)
        if result.error is not None:
            self.say(f"{source}: not read: {Refusal.from_json(result.error).one_line()}")
        elif result.proposal is None:
            self.say(f"{source}: no difference")
        else:
            self.say(f"{source}: " + "; ".join(change.describe() for change in open_changes(result.proposal)))
        return result


def _chosen(names: list[str]) -> list[SourceDataset]:
    """Return the named sources, or all in use. Raise MetadataError ``unknown_source``."""
    rows = SourceDataset.objects.select_related("system").order_by("system__short_name", "name")
    known = {str(row): row for row in rows}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise MetadataError("unknown_source", f"there is no source {unknown[0]!r}; name it SYSTEM.NAME")
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    return [row for row in known.values() if row.active and row.system.active]
