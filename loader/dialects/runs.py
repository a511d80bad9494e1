"""Table of applied runs: the runs of every leading table, by its stable key, which a rename does not change."""

from dataclasses import dataclass

from loader.dialects.dialect import Dialect

TABLE, RUN, TIME = "elevata.loads", "load_run_id", "load_timestamp"
COLUMNS = (
    ("table_key", "string"),
    (RUN, "string"),
    (TIME, "timestamp"),
    ("hashed_columns", "string"),
)


@dataclass(frozen=True)
class AppliedRuns:
    """Applied runs of the table with the key ``leading``.

    ``hashed`` is the digest of the columns that row hashes cover now.
    """

    dialect: Dialect
    leading: str
    hashed: str

    def _runs(self, *where: str) -> str:
        condition = " AND ".join([f"l.{self._name('table_key')} = {self.dialect.text(self.leading)}", *where])
        return f"FROM {self.dialect.table(TABLE)} AS l WHERE {condition}"

    def _name(self, name: str) -> str:
        return self.dialect.identifier(name)

    @property
    def is_new(self) -> str:
        """Return the condition that the run was not applied before (rule 2)."""
        same = f"l.{self._name('load_run_id')} = {self.dialect.run_id}"
        return f"NOT EXISTS (SELECT 1 {self._runs(same)})"

    @property
    def later(self) -> str:
        """Return the query of applied runs that are not earlier than this run (rule 3)."""
        not_earlier = f"l.{self._name('load_timestamp')} >= {self.dialect.load_timestamp}"
        return f"SELECT 1 {self._runs(not_earlier)}"

    def newest(self, *names: str) -> str:
        """Return the query of columns of the newest run."""
        at = f"l.{self._name(TIME)}"
        selected = ", ".join(f"l.{self._name(name)}" for name in names)
        return f"SELECT {selected} {self._runs(f'{at} = (SELECT MAX({at}) {self._runs()})')}"

    @property
    def covers_other_columns(self) -> str:
        """Return the condition that the newest run's row hashes cover other columns (rule 16)."""
        at, same = self._name("load_timestamp"), f"l.{self._name('hashed_columns')} = '{self.hashed}'"
        newest = f"l.{at} = (SELECT MAX(l.{at}) {self._runs()})"
        return f"NOT EXISTS (SELECT 1 {self._runs(newest, same)})"

    def record(self) -> str:
        """Return the statement that records the run, the last one of a load."""
        values = [self.dialect.text(self.leading), self.dialect.run_id, self.dialect.load_timestamp, f"'{self.hashed}'"]
        # BigQuery takes no WHERE without FROM.
        query = f"SELECT {', '.join(values)}\nFROM (SELECT 1 AS a_row) AS o\nWHERE {self.is_new}"
        return self.dialect.insert(self.dialect.table(TABLE), [name for name, _ in COLUMNS], query)
