"""Handlers of the loader's jobs: load runs of every kind, executions, dry runs and reads."""

from architecture.models import Execution, Rehearsal
from architecture.services.executions.executions import end_lost_execution, log_failed_wakeup, log_wakeup
from elevata.jobs import states
from elevata.jobs.registry import ASIDE, Handler
from loader.models import LoadRun
from loader.services.queries.reads import KINDS as READS
from loader.services.queries.reads import perform_read
from loader.services.runs import runs
from loader.services.runs.dry_runs import perform_rehearsal
from loader.services.runs.executions import perform_execution
from loader.services.runs.load_work import perform_load_run

# Users wait for dry runs and executions, so these go before loads.
HANDLERS = (
    Handler(
        kinds=(Rehearsal.KIND,),
        perform=lambda pk, **context: perform_rehearsal(rehearsal_pk=pk, **context),
        priority=0,
        lost_as=states.FAILED,
        lost_hint="repeat the dry run",
    ),
    Handler(
        kinds=(Execution.KIND,),
        perform=lambda pk, **context: perform_execution(execution_pk=pk, **context),
        priority=1,
        lost_hint="resume the execution: what it had finished is not done twice",
        lost=end_lost_execution,
        wake_failed=log_failed_wakeup,
        woken=log_wakeup,
    ),
    Handler(
        kinds=tuple(LoadRun.Kind.values),
        perform=lambda pk, **context: perform_load_run(run_pk=pk, **context),
        priority=2,
        lost_hint="start the run again under the same id: what it had finished is not done twice",
        lost=runs.end_lost_run,
        wake_failed=runs.log_failed_wakeup,
    ),
    Handler(
        kinds=READS,
        perform=lambda pk, **context: perform_read(read_pk=pk, **context),
        lane=ASIDE,
        lost_as=states.FAILED,
        lost_hint="ask again",
    ),
)
