"""History policy of a dataset: the content of a batch, the time that dates versions, the effect of a delete.

Rules and defaults are in ``docs/understand/history_rules.md``. This module checks that a policy is
consistent; the loader checks that it supports the policy.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain.text_formats import VARIABLE
from metadata.domain.types import BIGINT, BOOLEAN, DATE, INTEGER, STRING, TIMESTAMP, DataType

SNAPSHOT, DELTA, EFFECTIVE, CDC, BATCH_FILES = "snapshot", "delta", "effective", "cdc", "batch_files"
APPEND = "append"
LOAD_TIME = "load"
# Detection of keys that were deleted in a source of which a load reads changed rows only.
NONE, KEY_LIST, WINDOW = "none", "key_list", "window"
CLOSE, IGNORE, TOMBSTONE = "close", "ignore", "tombstone"
ELEVATA, FIVETRAN, DBT, SCD2 = "elevata", "fivetran", "dbt", "scd2"
HIGH_END_DATE, CURRENT, AS_OF, CHANGES = "high_end_date", "current", "as_of", "changes"
OPERATIONS = "operations"
VIEWS = (HIGH_END_DATE, CURRENT, AS_OF, CHANGES, OPERATIONS)
ROW, COLUMN = "row", "column"
# States of a version (rules 14 and 15).
STATES = ("new", "changed", "deleted", "live")
# Columns that every batch file contains; they are not in the metadata.
BATCH_FILE_COLUMNS = ("_fivetran_start", "_fivetran_end", "_fivetran_active", "_fivetran_synced")

_CHOICES = {
    "input": (SNAPSHOT, DELTA, EFFECTIVE, CDC, BATCH_FILES, APPEND),
    "deletes": (CLOSE, IGNORE, TOMBSTONE),
    "absent_keys": ("nothing", "deleted"),
    "delete_detection": (NONE, KEY_LIST, WINDOW),
    "late": ("split", "refuse", "ignore"),
    "untracked": ("update_in_place", "keep"),
    "profile": (ELEVATA, FIVETRAN, DBT, SCD2),
    "rank_by": (ROW, COLUMN),
}
_TEXTS = ("time", "op", "delete_flag", "open_end", "null_string", "unmodified_string")
TIME_TYPES = (TIMESTAMP, DATE, BIGINT, INTEGER)
_NUMBERS = (BIGINT, INTEGER)


class PolicyProblem(MetadataError):
    """Error for a history policy that is invalid, or that does not fit a dataset's columns."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__("bad_history_policy", message, f"history_policy.{field}" if field else "history_policy")


class PolicyContradiction(PolicyProblem):
    """Error for choices of a history policy that are valid separately, but not together."""


@dataclass(frozen=True)
class HistoryPolicy:
    """Choices for the history of one dataset.

    Attributes:
        input: content of a batch.
        time: column that dates the rows, or ``load``.
        deletes: effect of a delete; None only until the default is set.
        absent_keys: effect of a key that is missing from a batch.
        delete_detection: evidence by which a key that is missing from a delta was deleted: the list of all keys of the
            source, or the window of the source that the delta covers.
        late: effect of a row that arrives late.
        late_horizon: number of days that events stay in the event log; None without limit.
        track: tracked attributes; None tracks all.
        untracked: effect of a change of an attribute that is not tracked.
        open_end: end of an open version, a date or timestamp in ISO 8601; None for NULL.
        op: column of the CDC operation.
        delete_flag: column of type boolean; a row in which it is true deletes its key.
        null_string, unmodified_string: texts that mark NULL and unchanged values in batch files.
        profile: layout of the history's technical columns (``metadata.domain.history.history_columns``); None only
            until the default is set.
        state_labels: (state, label) pairs of the states whose label differs from the state's name.
        rank: sources (``system.dataset``), best first, where several deliver the same key; None refuses rows of one
            key that differ.
        rank_by: the row of the best source is used whole (``row``), or each column's value of the best source that
            has one (``column``).
        views: views published over the history; none by default, because each costs every load one or two
            statements.
    """

    input: str = SNAPSHOT
    time: str = LOAD_TIME
    deletes: str | None = None
    absent_keys: str = "nothing"
    delete_detection: str = NONE
    late: str = "split"
    late_horizon: int | None = None
    track: tuple[str, ...] | None = None
    untracked: str = "update_in_place"
    open_end: str | None = None
    op: str | None = None
    delete_flag: str | None = None
    null_string: str | None = None
    unmodified_string: str | None = None
    profile: str | None = None
    state_labels: tuple[tuple[str, str], ...] = ()
    views: tuple[str, ...] = ()
    rank: tuple[str, ...] | None = None
    rank_by: str = ROW

    def __post_init__(self) -> None:
        if self.deletes is None:
            object.__setattr__(self, "deletes", _default_deletes(self))
        if self.profile is None:
            object.__setattr__(self, "profile", _default_profile(self.input))
        _check_combination(self)

    @classmethod
    def from_dict(cls, described: Any) -> "HistoryPolicy":
        """Return the policy with these fields.

        Raises PolicyProblem for an unknown field, a wrong type or an invalid combination.
        """
        if not isinstance(described, Mapping):
            raise PolicyProblem("", f"must be fields with values, not {_type_name(described)}")
        known = [f.name for f in fields(cls)]
        for name in described:
            if name not in known:
                raise PolicyProblem(str(name), f"is not known; known are {', '.join(known)}")
        return cls(**{name: _value(name, value) for name, value in described.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, so that equal policies give equal dicts."""
        known = HistoryPolicy.__dataclass_fields__
        described = {
            name: list(value) if isinstance(value, tuple) else value
            for name in known
            if (value := getattr(self, name)) != known[name].default
        }
        if self.state_labels:
            described["state_labels"] = dict(self.state_labels)
        if self.deletes == _default_deletes(self):
            described.pop("deletes", None)
        if self.profile == _default_profile(self.input):
            described.pop("profile", None)
        return described

    def renamed(self, names: Mapping[str, str]) -> "HistoryPolicy":
        """Return the policy after columns were renamed (old name to new).

        Raises PolicyProblem if the time column would be named ``load``, which stands for the load's time.
        """
        time = self.time_column
        if time is not None and names.get(time) == LOAD_TIME:
            message = f"column {time!r} dates the rows, so it cannot be called {LOAD_TIME!r}: that is the load's time"
            raise PolicyProblem("time", message)
        return replace(
            self,
            time=LOAD_TIME if time is None else names.get(time, time),
            op=None if self.op is None else names.get(self.op, self.op),
            delete_flag=None if self.delete_flag is None else names.get(self.delete_flag, self.delete_flag),
            track=None if self.track is None else tuple(names.get(name, name) for name in self.track),
        )

    @property
    def time_column(self) -> str | None:
        """Return the column that dates the rows; None if the load dates them."""
        return None if self.time == LOAD_TIME else self.time

    @property
    def uncompared(self) -> tuple[str, ...]:
        """Return the columns that are never compared: time (rule 12), operation and delete flag."""
        return tuple(name for name in (self.time_column, self.op, self.delete_flag) if name is not None)

    @property
    def delivered_only(self) -> dict[str, str]:
        """Return the types of the columns, by name, that a delivery needs even if the dataset does not store them."""
        types = {self.op: STRING, self.delete_flag: BOOLEAN}
        return {name: type_ for name, type_ in types.items() if name is not None}

    def keeps_events(self, *, historize: bool) -> bool:
        """Return True if loads keep an event log: rows have a time of their own that the load honours.

        Without a history a snapshot replaces all rows, whatever their times.
        """
        is_dated = self.time != LOAD_TIME and self.input != BATCH_FILES
        return is_dated and (historize or self.input != SNAPSHOT)

    def is_honoured(self, *, historize: bool) -> bool:
        """Return True if loads need the columns that the policy names, and a business key."""
        honoured = self.delete_flag is not None or self.delete_detection != NONE
        return historize or honoured or self.keeps_events(historize=False)

    def label(self, state: str) -> str:
        """Return the value of the version's state column for ``state``."""
        return dict(self.state_labels).get(state, state)

    def fields_naming(self, column: str) -> tuple[str, ...]:
        """Return the fields of the policy that refer to ``column``."""
        columns = {
            "time": (self.time_column,),
            "op": (self.op,),
            "delete_flag": (self.delete_flag,),
            "track": self.track or (),
        }
        return tuple(field for field, names in columns.items() if column in names)

    def check_against(self, columns: Mapping[str, DataType], business_key: Collection[str] = ()) -> None:
        """Raise PolicyProblem if the policy cannot be applied to rows with these columns (name to type).

        The operation column, the delete flag and the time columns of batch files may be missing: they can be
        delivered without being stored.
        """
        if self.time != LOAD_TIME and not self._is_file_time(columns):
            type_ = self._column("time", self.time, columns)
            if type_.name not in TIME_TYPES:
                raise PolicyProblem(
                    "time", f"column {self.time!r} is {type_}, which is no time: {', '.join(TIME_TYPES)} are"
                )
        if self.op is not None and self.op in columns and columns[self.op].name != STRING:
            raise PolicyProblem("op", f"column {self.op!r} is {columns[self.op]}, not text (I, U, D)")
        if self.delete_flag is not None and self.delete_flag in columns and columns[self.delete_flag].name != BOOLEAN:
            message = f"column {self.delete_flag!r} is {columns[self.delete_flag]}, not boolean"
            raise PolicyProblem("delete_flag", f"{message}; its expression can make it so")
        if self.delete_flag is not None and self.delete_flag in business_key:
            raise PolicyProblem("delete_flag", f"column {self.delete_flag!r} is in the business key")
        for name in self.track or ():
            self._column("track", name, columns)
            if name in business_key:
                raise PolicyProblem("track", f"column {name!r} is in the business key, which never changes")
            if name in self.uncompared:
                raise PolicyProblem("track", f"column {name!r} says when or how; it is never tracked")

    def check_described(
        self, columns: Mapping[str, DataType], business_key: Collection[str] = (), delivered: Collection[str] = ()
    ) -> None:
        """Raise PolicyProblem if the policy does not fit a dataset in the metadata.

        Stricter than ``check_against``, because all columns are known: ``delivered`` are the names of the input
        columns, compared without case, which may include the operation column and the delete flag.
        """
        if self.input == BATCH_FILES:
            name = next((name for name in columns if name.lower() in BATCH_FILE_COLUMNS), None)
            if name is not None:
                message = f"batch_files brings column {name!r} of itself; leave it out of the described columns"
                raise PolicyProblem("input", message)
        self.check_against(columns, business_key)
        known = {name.lower() for name in (*columns, *delivered)}
        for field, name in (("op", self.op), ("delete_flag", self.delete_flag)):
            if name is not None and name.lower() not in known:
                raise PolicyProblem(field, f"there is no column {name!r}")
        if self.time != LOAD_TIME and self.time in columns:
            self._check_time_type(columns[self.time])

    def check_historize(self, historize: bool) -> None:
        """Raise PolicyProblem if the policy does not go with keeping a history, or with keeping none."""
        if historize and self.input == APPEND:
            raise PolicyProblem("input", "append only adds rows, which have no versions: switch the history off")
        if historize or not self.keeps_events(historize=False):
            return
        needs_versions = {
            "deletes": self.deletes == TOMBSTONE,
            "untracked": self.untracked == "keep",
            "open_end": self.open_end is not None,
            "profile": self.profile != ELEVATA,
            "state_labels": bool(self.state_labels),
            "views": bool(self.views),
        }
        for field, needed in needs_versions.items():
            if needed:
                raise PolicyProblem(
                    field, "needs versions, and the dataset keeps no history: leave it out, or keep one"
                )

    def _check_time_type(self, type_: DataType) -> None:
        """Check that the policy's values fit the type of the time column (rules 8 and 11)."""
        message = f"column {self.time!r} is {type_}"
        if type_.name in _NUMBERS:
            if self.late_horizon is not None:
                raise PolicyProblem("late_horizon", f"is a number of days, and time {message}: it has no days")
            if self.closes_absent:
                field = "time" if self.input == SNAPSHOT else "absent_keys"
                raise PolicyProblem(
                    field, f"{message}: absent keys close at the run's time, which has no place among its values"
                )
            if self.open_end is not None:
                raise PolicyProblem("open_end", f"is a date, and time {message}; leave it out")
        if type_.name == DATE and self.open_end is not None and isinstance(_parse_end(self.open_end), datetime):
            raise PolicyProblem(
                "open_end", f"has a time of day, and time {message}: a date like 9999-12-31 is possible"
            )

    @property
    def closes_absent(self) -> bool:
        """Return True if a batch is complete, so that keys missing from it are closed at the run's time."""
        complete = self.input == SNAPSHOT or self.absent_keys == "deleted"
        return complete and self.deletes != IGNORE

    def _is_file_time(self, columns: Mapping[str, DataType]) -> bool:
        return self.input == BATCH_FILES and self.time not in columns

    @staticmethod
    def _column(field: str, name: str, columns: Mapping[str, DataType]) -> DataType:
        if name not in columns:
            raise PolicyProblem(field, f"there is no column {name!r}")
        return columns[name]


def _default_deletes(policy: HistoryPolicy) -> str:
    """Return the default of ``deletes`` (rule 7)."""
    closes = policy.input in (SNAPSHOT, CDC, BATCH_FILES)
    return CLOSE if closes or (policy.input in (DELTA, EFFECTIVE) and _says_deletes(policy)) else IGNORE


def _says_deletes(policy: HistoryPolicy) -> bool:
    """Return True if deltas or effective rows show which keys were deleted."""
    return policy.absent_keys == "deleted" or policy.delete_flag is not None or policy.delete_detection != NONE


def _default_profile(input_: str) -> str:
    """Return the default profile: Fivetran's for batch files, which contain its columns, else elevata's."""
    return FIVETRAN if input_ == BATCH_FILES else ELEVATA


def _type_name(value: Any) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "fields",
    }
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _value(name: str, value: Any) -> Any:
    """Return the value of one field after checking its type and choices."""
    if name in _CHOICES:
        if not isinstance(value, str) or value not in _CHOICES[name]:
            raise PolicyProblem(name, f"must be one of {', '.join(_CHOICES[name])}, not {value!r}")
        return value
    if name in _READERS:
        return _READERS[name](name, value)
    assert name in _TEXTS, name
    if not isinstance(value, str) or not value:
        raise PolicyProblem(name, f"must be text, not {_type_name(value)}")
    _refuse_variable(name, value)
    return value


def _days(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PolicyProblem(name, f"must be a whole number of days, at least 1, not {value!r}")
    return value


def _column_names(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
        raise PolicyProblem(name, f"must be a list of column names, not {value!r}")
    for item in value:
        _refuse_variable(name, item)
    if len(set(value)) != len(value):
        raise PolicyProblem(name, "names a column twice")
    return tuple(value)


def _source_names(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) < 2 or not all(isinstance(item, str) for item in value):
        raise PolicyProblem(name, f"must be a list of two or more sources like crm.customer, not {value!r}")
    if len(set(value)) != len(value):
        raise PolicyProblem(name, "names a source twice")
    return tuple(value)


def _views(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(item in VIEWS for item in value):
        raise PolicyProblem(name, f"must be a list of {', '.join(VIEWS)}, not {value!r}")
    if len(set(value)) != len(value):
        raise PolicyProblem(name, "names a view twice")
    return tuple(view for view in VIEWS if view in value)


def _refuse_variable(field: str, text: str) -> None:
    """Refuse ``${`` in a text that is written into SQL statements and Spark settings."""
    if VARIABLE in text:
        raise PolicyProblem(field, f"holds {VARIABLE}, which would stand for a variable of the worker")


def _labels(_: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Return the labels that differ from the state's name, in the order of the states."""
    if not isinstance(value, Mapping):
        raise PolicyProblem("state_labels", f"must be our words with your labels, not {_type_name(value)}")
    for word, label in value.items():
        if word not in STATES:
            raise PolicyProblem(f"state_labels.{word}", f"is not known; known are {', '.join(STATES)}")
        if not isinstance(label, str) or not label.strip():
            message = "nothing" if label == "" else "blanks" if isinstance(label, str) else _type_name(label)
            raise PolicyProblem(f"state_labels.{word}", f"must be text that can be seen, not {message}")
        _refuse_variable(f"state_labels.{word}", label)
    labels = {word: value.get(word, word) for word in STATES}
    for word, label in labels.items():
        first = next(other for other in STATES if labels[other] == label)
        if first != word:
            raise PolicyProblem("state_labels", f"{first} and {word} would both be {label!r}")
    return tuple((word, label) for word, label in labels.items() if label != word)


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "late_horizon": _days,
    "track": _column_names,
    "rank": _source_names,
    "state_labels": _labels,
    "views": _views,
}


def _check_combination(policy: HistoryPolicy) -> None:
    """Refuse choices that contradict each other or have no effect."""
    own_time = policy.time != LOAD_TIME
    if policy.input == APPEND:
        _check_append(policy)
    if policy.input in (EFFECTIVE, CDC, BATCH_FILES) and not own_time:
        raise PolicyContradiction("time", f"must name a column: with input {policy.input}, rows carry their own time")
    if (policy.op is not None) != (policy.input == CDC):
        message = "must name the column with I, U or D" if policy.input == CDC else "goes with input cdc only"
        raise PolicyContradiction("op", message)
    if policy.delete_flag is not None and policy.input not in (DELTA, EFFECTIVE):
        raise PolicyContradiction("delete_flag", "goes with input delta or effective only")
    if policy.absent_keys == "deleted" and policy.input != EFFECTIVE:
        raise PolicyContradiction("absent_keys", "goes with input effective only; of a snapshot it always holds")
    if policy.input == BATCH_FILES and policy.deletes != CLOSE:
        raise PolicyContradiction("deletes", "does not go with input batch_files, which says itself what a delete does")
    _check_detection(policy)
    if policy.input in (DELTA, EFFECTIVE) and not _says_deletes(policy) and policy.deletes != IGNORE:
        message = f"can only be ignore: input {policy.input} says nothing of absent keys, and no column flags deletes"
        raise PolicyContradiction("deletes", message)
    if (policy.late, policy.late_horizon) != ("split", None) and (not own_time or policy.input == BATCH_FILES):
        raise PolicyContradiction(
            "late" if policy.late != "split" else "late_horizon", "needs rows with a time of their own"
        )
    if policy.input == BATCH_FILES and policy.profile != FIVETRAN:
        raise PolicyContradiction("profile", "can only be fivetran: batch files say what stands in its columns")
    if policy.untracked != "update_in_place" and policy.track is None:
        raise PolicyContradiction("untracked", "needs track: without it every column is tracked")
    if OPERATIONS in policy.views and (own_time or policy.input not in (SNAPSHOT, DELTA)):
        raise PolicyContradiction("views", "operations goes with input snapshot or delta only, dated by the load")
    _check_rank(policy)
    _check_texts(policy)


def _check_append(policy: HistoryPolicy) -> None:
    """Refuse every other choice with input append: its rows are only added."""
    for name in policy.to_dict():
        if name != "input":
            raise PolicyContradiction(name, "does not go with input append, which only adds rows")


def _check_detection(policy: HistoryPolicy) -> None:
    """Refuse delete detection where a delivery is complete, names its deletes, or dates its rows itself."""
    if policy.delete_detection == NONE:
        return
    if policy.input != DELTA or policy.time != LOAD_TIME:
        message = f"goes with input {DELTA} only, with rows dated by the load"
        raise PolicyContradiction("delete_detection", message)
    if policy.deletes == IGNORE:
        message = f"can only be {CLOSE} or {TOMBSTONE} with delete_detection, which looks for deleted keys"
        raise PolicyContradiction("deletes", message)


def _check_rank(policy: HistoryPolicy) -> None:
    """Refuse a rank of sources where the row of a better source may be absent."""
    if policy.rank is not None and (policy.input != SNAPSHOT or policy.time != LOAD_TIME):
        message = "needs full snapshots dated by the load: in other batches the row of a better source may be absent"
        raise PolicyContradiction("rank", message)
    if policy.rank_by != ROW and policy.rank is None:
        raise PolicyContradiction("rank_by", "needs rank: without it no source is better than another")


def _check_texts(policy: HistoryPolicy) -> None:
    """Refuse marker texts without batch files, and an open end that is invalid."""
    for name in ("null_string", "unmodified_string"):
        if getattr(policy, name) is not None and policy.input != BATCH_FILES:
            raise PolicyContradiction(name, "goes with input batch_files only")
    if policy.open_end is not None:
        if policy.input == BATCH_FILES:
            raise PolicyContradiction(
                "open_end", "does not go with input batch_files, which says itself what an open end is"
            )
        _check_open_end(policy.open_end)


def _check_open_end(text: str) -> None:
    try:
        end = _parse_end(text)
        year = end.astimezone(UTC).year if isinstance(end, datetime) and end.tzinfo else end.year
    except (ValueError, OverflowError):
        raise PolicyProblem("open_end", f"must be a date or timestamp like 9999-12-31, not {text!r}") from None
    if year < 2200:
        raise PolicyProblem("open_end", f"must lie beyond every real time (2200 or later), not {text}")


def _parse_end(text: str) -> date:
    """Return the open end as a date, or as a timestamp if it has a time of day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text)
