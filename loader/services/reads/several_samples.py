"""Samples of several files of a system, in groups that one source can read."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.file_groups import FileGroup, ReadFile, group_files
from loader.services.reads.source_samples import Place, readable_sample
from loader.sources.page_limits import too_slow
from loader.sources.results import Sample
from loader.sources.systems import delivery
from metadata.domain.sources.formats import CSV, format_of
from metadata.domain.types import STRING
from metadata.models import System

# Files that are read for one page, and the seconds after which no further one is.
MOST_FILES, _SECONDS = 20, 20.0


@dataclass(frozen=True)
class SampledFiles:
    """Samples of files by location, each with its masked columns; refusals of others; and the groups of files."""

    samples: Mapping[str, tuple[Sample, Collection[str]]]
    refusals: Mapping[str, Refusal]
    groups: Sequence[FileGroup]

    def place(self, location: str) -> Place:
        """Return the place of a sampled file, with the options by which it was read."""
        return Place(location, _format(location), dict(self.samples[location][0].options))


def sample_several(user: Any, system: System, locations: Sequence[str]) -> SampledFiles:
    """Return samples and groups of files. Raise PermissionDenied without the permission to read data."""
    samples: dict[str, tuple[Sample, Collection[str]]] = {}
    refusals: dict[str, Refusal] = {}
    end = time.monotonic() + _SECONDS
    for location in dict.fromkeys(locations[:MOST_FILES]):
        try:
            if time.monotonic() > end:
                raise too_slow(location, _SECONDS)
            samples[location] = readable_sample(user, system, Place(location, _format(location), None))
        except Refusal as refusal:
            refusals[location] = refusal
    files = [
        ReadFile(location, _format(location), sample.options, tuple(column.name for column in sample.columns))
        for location, (sample, _) in samples.items()
    ]
    groups = [_checked(user, system, group, samples) for group in group_files(files)]
    return SampledFiles(samples, refusals, groups)


def files_of(system: System, pattern: str) -> int:
    """Return the number of files that a pattern matches now. Raise Refusal."""
    return delivery(system, pattern).files


def _checked(
    user: Any, system: System, group: FileGroup, samples: Mapping[str, tuple[Sample, Collection[str]]]
) -> FileGroup:
    """Return the group, without its pattern if a file is not read rightly with the options of the others."""
    if not group.pattern:
        return group
    options = dict(group.options or {})
    for file in group.files:
        if file.options == options:
            continue
        try:
            sample, _ = readable_sample(user, system, Place(file.location, file.format, options))
        except Refusal:
            return FileGroup(group.files)
        before = [column.type.name for column in samples[file.location][0].columns]
        now = [column.type.name for column in sample.columns]
        if any(name == STRING != other for name, other in zip(now, before, strict=False)) or len(now) != len(before):
            return FileGroup(group.files)
    return group


def _format(location: str) -> str:
    return format_of(location) or CSV
