"""Handlers of the loader's jobs: load runs of all kinds, executions, dry runs and reads."""

from architecture.models import DryRun, Execution, Refresh
from architecture.services.executions import end_lost_execution, log_failed_wakeup, log_wakeup
from elevata.jobs import states
from elevata.jobs.registry import ASIDE, READS, Handler
from loader.models import LoadRun
from loader.services.dry_runs import perform_dry_run
from loader.services.executions import perform_execution
from loader.services.loads import load_runs
from loader.services.loads.load_work import perform_load_run
from loader.services.publication import PUBLISH
from loader.services.reads.attempts import perform_read, perform_refresh
from loader.services.reads.read_requests import KINDS, SOURCE_CHECK, is_of_user
from loader.services.sources.check_requests import perform_check

# Executions and dry runs run before loads, because users wait for them; executions first, because a dry run can wait.
HANDLERS = (
    Handler(
        kinds=(Execution.KIND,),
        perform=perform_execution,
        priority=0,
        lost_hint="resume the execution; finished steps are not repeated",
        lost=end_lost_execution,
        wake_failed=log_failed_wakeup,
        woken=log_wakeup,
    ),
    Handler(
        kinds=(DryRun.KIND,),
        perform=perform_dry_run,
        priority=1,
        lost_as=states.FAILED,
        lost_hint="repeat the dry run",
    ),
    Handler(
        kinds=tuple(LoadRun.Kind.values),
        perform=perform_load_run,
        priority=2,
        lost_hint="run it again with the same ID; finished parts are not repeated",
        lost=load_runs.end_lost_run,
        wake_failed=load_runs.log_failed_wakeup,
    ),
    Handler(
        kinds=tuple(kind for kind in KINDS if kind != PUBLISH),
        perform=perform_read,
        lane=READS,
        only_reads=is_of_user,
        lost_as=states.FAILED,
        lost_hint="ask again",
    ),
    Handler(
        kinds=(PUBLISH,),
        perform=perform_read,
        lane=ASIDE,
        lost_as=states.FAILED,
        lost_hint="ask again",
    ),
    Handler(
        kinds=(SOURCE_CHECK,),
        perform=perform_check,
        lane=ASIDE,
        lost_as=states.FAILED,
        lost_hint="check the source on its page",
    ),
    Handler(
        kinds=(Refresh.KIND,),
        perform=perform_refresh,
        lane=ASIDE,
        lost_as=states.FAILED,
        lost_hint="ask again",
    ),
)
