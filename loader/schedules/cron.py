"""Cron schedules: five fields and a time zone.

cronsim parses them like Debian's cron, also when clocks change: a time that is skipped is due right after the gap, and
a time that occurs twice is due once. The module uses no database and no clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from elevata.core.errors import MetadataError

EXAMPLE = "for example 30 6 * * 1-5 (06:30 from Monday to Friday)"
SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FORMS = "a number, a list (6,18), a range (8-18), steps (*/2) or *"
# Each field's name and its permitted values.
_FIELDS = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, or L for the last"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7 (0 and 7 are Sunday), or SUN to SAT"),
)
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Timetable:
    """Times of a cron expression in a time zone; created by ``read``."""

    cron: str
    zone: ZoneInfo

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Yield the times after an instant, in the timetable's zone."""
        for time in CronSim(self.cron, instant.astimezone(self.zone)):
            # If an hour occurs twice, its first occurrence may be before the instant. The times are compared in UTC,
            # because Python compares times of one zone by their local time.
            if time.astimezone(UTC) > instant.astimezone(UTC):
                yield time

    def next_after(self, instant: datetime) -> datetime:
        """Return the next time after an instant, in UTC."""
        return next(self.after(instant)).astimezone(UTC)

    def first(self, count: int, *, after: datetime) -> list[datetime]:
        """Return the next ``count`` times after an instant, in the timetable's zone."""
        return list(islice(self.after(after), count))

    @property
    def words(self) -> str:
        """Return the cron expression in English: ``At 06:30 Monday through Friday``."""
        return CronSim(self.cron, _ANY_TIME).explain()


def read(cron: str, time_zone: str) -> Timetable:
    """Parse a cron expression and a time zone. Raise MetadataError ``bad_cron`` or ``bad_time_zone``, at its field."""
    if time_zone not in time_zones():
        raise MetadataError(
            "bad_time_zone", f"there is no time zone {time_zone!r}; {_suggest_zone(time_zone)}", "time_zone"
        )
    line = " ".join(cron.split())
    _check_form(line)
    try:
        CronSim(line, _ANY_TIME)
    except CronSimError as error:
        raise _bad_cron(_explain_error(line) or str(error)) from None
    timetable = Timetable(line, ZoneInfo(time_zone))
    if next(timetable.after(_ANY_TIME), None) is None:
        raise _bad_cron("there is no such time in fifty years")
    return timetable


@cache
def time_zones() -> frozenset[str]:
    """Return the names of all known time zones."""
    return frozenset(available_timezones())


def _check_form(line: str) -> None:
    if line.lower() in SHORTHANDS:
        raise _bad_cron(f"{line} is written {SHORTHANDS[line.lower()]} here")
    if "?" in line:
        raise _bad_cron("there is no ? here; write * for a field that says nothing")
    count = len(line.split())
    if count == len(_FIELDS):
        return
    names = ", ".join(name for name, _ in _FIELDS)
    hint = "; seconds and years are not told" if count > len(_FIELDS) else ""
    raise _bad_cron(f"cron has five fields ({names}), and here {'is' if count == 1 else 'are'} {count}{hint}")


def _explain_error(line: str) -> str:
    """Return the message for the first invalid field, or else for a day that the month does not have."""
    parts = line.split()
    for place, (name, values) in enumerate(_FIELDS):
        fields = ["*"] * len(_FIELDS)
        fields[place] = parts[place]
        try:
            CronSim(" ".join(fields), _ANY_TIME)
        except CronSimError:
            return f'the {name} cannot be "{parts[place]}": it is {values}, as {_FORMS}'
    return f"there is no day {parts[2]} in month {parts[3]}"


def _bad_cron(message: str) -> MetadataError:
    return MetadataError("bad_cron", f"{message}; {EXAMPLE}", "cron")


def _suggest_zone(time_zone: str) -> str:
    text = time_zone.strip().lower().replace(" ", "_")
    similar = sorted(name for name in time_zones() if text and text in name.lower())[:3]
    return f"did you mean {' or '.join(similar)}?" if similar else "write it like Europe/Berlin or UTC"
