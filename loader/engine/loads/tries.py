"""Repeated tries of a dataset's load."""

from collections.abc import Callable

from loader.engine.java_errors import JAVA_ERRORS, lost_executor
from loader.engine.loads.dataset_load import Outcome
from loader.engine.tables.table_files import TableMoved

# Attempts of a load to compare and commit while another writer changes its table.
_TRIES = 3


def retry(do: Callable[[], None], outcome: Outcome) -> None:
    """Call ``do`` again, with a warning, if another writer changed the table or an executor was lost.

    After the last try, raise the error. A repetition is safe: the table shows if a try has committed.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return do()
        except TableMoved as moved:
            if not tries_left:
                raise
            outcome.warnings.append(f"{moved.message}; this run read the table again.")
        except JAVA_ERRORS as failure:
            if not tries_left or not lost_executor(failure):
                raise
            outcome.warnings.append("An executor was lost with rows that only it held: the dataset was loaded again.")
