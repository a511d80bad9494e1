"""Step of the guided path for several files at once: one source for each, or one by pattern."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError, ProductError, as_sentence
from elevata.web.forms import error_text
from elevata.web.views import REFUSED
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.file_groups import FileGroup
from loader.domain.sources.file_detection.questions import asked_questions
from loader.forms.source_drafts import SourceDraft
from loader.selectors.source_state import loaded_dataset
from loader.services.loads.load_runs import request_load_run
from loader.services.reads.several_samples import MOST_FILES, SampledFiles, files_of, sample_several
from loader.services.reads.source_samples import Place, readable_sample
from loader.views.sources.source_steps import steps_of
from loader.views.sources.systems import SourcesPage
from metadata.domain.scope import DATASET, SELECTION, Scope
from metadata.models import SourceDataset, System
from metadata.permissions import here
from metadata.services.datasets.generation_preview import import_and_generate_all

BY_PATTERN, EACH, NONE = "pattern", "each", "none"
CREATE_ONLY = "create_only"


@dataclass(frozen=True)
class ShownGroup:
    """Group of files as the page shows it. ``matches`` is the number of files that its pattern matches now."""

    group: FileGroup
    field: str
    notes: list[str]
    columns: list[str]
    key: list[str]
    questions: int
    address: str
    matches: int = 0
    chosen: str = EACH


def files_address(system: System, locations: list[str]) -> tuple[str, int]:
    """Return the address of the step for the first of these files, and their number: as many as it can have."""
    address, number = f"{reverse('source_files', args=[system.short_name])}?", 0
    for location in locations[:MOST_FILES]:
        longer = f"{address}{'&' if number else ''}{urlencode({'location': location})}"
        if len(longer) > settings.LONGEST_ADDRESS:
            break
        address, number = longer, number + 1
    return address, number


def only_first(number: int) -> str:
    """Return the warning about more files than the step can have."""
    return f"Only the first {number} files are shown. Add the others afterwards."


class SourceFiles(SourcesPage):
    """Files in groups of one header, and the choice between one source by pattern and one for each file."""

    template_name = "loader/sources/source_files.html"

    def context(self) -> dict[str, Any]:
        may_start = may(self.request.user, Permission.START_LOAD, on=here)
        return super().context() | {"steps": steps_of("Columns", self.row), "may_start": may_start}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        locations = _locations(request.GET.getlist("location"))
        if self.row.kind != System.Kind.FILES or not locations:
            return redirect("system_discover", self.row.short_name)
        if len(request.GET.getlist("location")) > MOST_FILES:
            messages.warning(request, only_first(MOST_FILES))
        return self.show(sample_several(request.user, self.row, locations), {})

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Create the chosen sources with their targets, all or nothing; then start one load of them."""
        if self.row.kind != System.Kind.FILES:
            return redirect("system_discover", self.row.short_name)
        files = sample_several(request.user, self.row, _locations(request.POST.getlist("location")))
        if request.POST.get("seen") != _mark(files):
            return self.show(files, {}, "The files have changed meanwhile. Check the choices again.")
        chosen = {name: request.POST.get(name, "") for name in _fields(files)}
        try:
            drafts = list(self._drafts(files, chosen))
            if not drafts:
                return self.show(files, chosen, "Choose at least one source.")
            sources = import_and_generate_all([_described(draft) for draft in drafts])
        except (Refusal, MetadataError) as error:
            return self.show(files, chosen, as_sentence(error.one_line()))
        names = ", ".join(map(str, sources))
        messages.success(request, f"{names} created with {'their' if len(sources) > 1 else 'its'} targets.")
        if CREATE_ONLY in request.POST or not may(request.user, Permission.START_LOAD, on=here):
            return redirect("system_page", self.row.short_name)
        return self._load(sources)

    def _load(self, sources: list[SourceDataset]) -> HttpResponse:
        datasets = [str(loaded_dataset(source)) for source in sources]
        scope = Scope(DATASET, datasets[0]) if len(datasets) == 1 else Scope(SELECTION, " ".join(datasets))
        try:
            requested = request_load_run(scope=scope, user=self.request.user)
        except ProductError as error:
            messages.error(self.request, f"The load did not start: {error_text(error, error.message)}")
            return redirect("system_page", self.row.short_name)
        if len(sources) == 1:
            return redirect("source_first_load", sources[0].key, requested.run.run_id)
        return redirect("run_page", requested.run.run_id)

    def _drafts(self, files: SampledFiles, chosen: dict[str, str]) -> Iterator[SourceDraft]:
        """Yield the drafts of the chosen sources. Raise Refusal for a pattern that cannot be read any more."""
        for number, group in enumerate(files.groups):
            choice = chosen[_field(number)]
            if choice == BY_PATTERN and group.pattern:
                place = Place(group.pattern, group.files[0].format, dict(group.options or {}))
                yield SourceDraft.proposed(self.row, place, *readable_sample(self.request.user, self.row, place))
            elif choice == EACH:
                for location in group.locations:
                    # Without its date, a name may be that of another file of the group.
                    name = _stem(location) if len(group.files) > 1 else ""
                    yield SourceDraft.proposed(self.row, files.place(location), *files.samples[location], name=name)

    def show(self, files: SampledFiles, chosen: dict[str, str], error: str = "") -> HttpResponse:
        groups = [self._shown(files, number, group, chosen) for number, group in enumerate(files.groups)]
        refusals = [(location, refusal.as_json()) for location, refusal in files.refusals.items()]
        locations = [*files.samples, *files.refusals]
        status = REFUSED if error else 200
        context: dict[str, Any] = {"groups": groups, "refusals": refusals, "locations": locations}
        return self.render(status=status, error=error, seen=_mark(files), **context)

    def _shown(self, files: SampledFiles, number: int, group: FileGroup, chosen: dict[str, str]) -> ShownGroup:
        sample, _ = files.samples[group.locations[0]]
        place = files.place(group.locations[0])
        location = group.pattern or place.location
        options = group.options if group.pattern else place.options
        address = {"location": location, "format": place.format, "options": json.dumps(dict(options or {}))}
        questions = asked_questions(sample.questions)
        return ShownGroup(
            group,
            _field(number),
            _notes(files, group),
            [f"{column.name} {column.type}" for column in sample.columns],
            [column.name for column in sample.columns if column.key_ordinal is not None],
            len(questions),
            # Options in the address are taken as they are; without them, the page asks what is open.
            f"{reverse('source_import', args=[self.row.short_name])}?"
            + urlencode({"location": location} if questions else address),
            self._matches(group.pattern) if group.pattern else 0,
            chosen.get(_field(number)) or (BY_PATTERN if group.pattern else EACH),
        )

    def _matches(self, pattern: str) -> int:
        try:
            return files_of(self.row, pattern)
        except Refusal:
            return 0


def _notes(files: SampledFiles, group: FileGroup) -> list[str]:
    """Return the notes about the first file of a group, and those of the others that it has not, with their files."""
    first, *others = [(location, files.samples[location][0].all_notes) for location in group.locations]
    return [*first[1], *(f"{location}: {note}" for location, notes in others for note in notes if note not in first[1])]


def _locations(sent: list[str]) -> list[str]:
    return [text.strip()[:1000] for text in sent if text.strip() and "\0" not in text][:MOST_FILES]


def _fields(files: SampledFiles) -> list[str]:
    return [_field(number) for number, _ in enumerate(files.groups)]


def _mark(files: SampledFiles) -> str:
    """Return a digest of the groups, which fields name by their places, and of how their files are read."""
    groups = [[group.pattern, group.locations] for group in files.groups]
    read = [
        [dict(sample.options), [f"{column.name} {column.type}" for column in sample.columns]]
        for sample, _ in files.samples.values()
    ]
    return sha256_hex([groups, read])


def _field(number: int) -> str:
    return f"group-{number}"


def _stem(location: str) -> str:
    return location.rpartition("/")[2].partition(".")[0]


def _described(draft: SourceDraft) -> dict[str, Any]:
    """Return the arguments that create the source of a draft. Raise Refusal if its proposals are not valid."""
    if draft.is_valid:
        draft = draft.with_default_load_type()
        load_type = draft.load_type() if draft.is_valid else None
        if load_type is not None and load_type.is_valid():
            return draft.described(load_type)
    raise Refusal(
        "COLUMNS_UNDECIDED",
        f"{draft.place.location} cannot be added as proposed",
        file=draft.place.location,
        hint="Choose its columns on their page.",
    )
