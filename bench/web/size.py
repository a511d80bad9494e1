"""Size of a generated control database."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Size:
    """Numbers of generated objects.

    ``datasets`` excludes their histories, which have no columns of their own. ``nights`` are load runs of
    everything, ``runs`` all load runs; ``reports`` are past ones, about one dataset each; ``edits`` are
    change-log entries besides the descriptions; ``pending`` datasets were edited and not executed,
    ``drifted`` ones were changed in the warehouse. ``people`` is the number of users who edit.
    """

    datasets: int = 2000
    columns: int = 30
    nights: int = 60
    runs: int = 300
    reports: int = 300
    edits: int = 40_000
    pending: int = 40
    drifted: int = 20
    people: int = 12
    schedules: int = 12
    seed: int = 7

    @property
    def sources(self) -> int:
        """Number of source datasets, each with a raw, a stage and a rawcore dataset; the rest are marts."""
        return max(3, self.datasets * 3 // 10)

    @property
    def marts(self) -> int:
        return max(2, self.datasets - 3 * self.sources)


# Objects that tests request twice: a page that needs more queries for the second one has queries per row.
SMALL = Size(
    datasets=24, columns=6, nights=2, runs=5, reports=18, edits=40, pending=3, drifted=2, people=2, schedules=2
)
_MORE = ("datasets", "runs", "reports", "edits", "pending", "drifted", "people", "schedules")
THRICE = replace(SMALL, columns=12, nights=4, **{name: 3 * getattr(SMALL, name) for name in _MORE})
