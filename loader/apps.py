from django.apps import AppConfig


class LoaderConfig(AppConfig):
    name = "loader"
    verbose_name = "Loading"

    def ready(self) -> None:
        from architecture.services.states import observed_states, writing_runs
        from elevata.jobs.wakeup import wake_for_deliveries
        from loader.management.refresh_command import look
        from loader.services.maintenance.records import register
        from loader.services.runs.writing_runs import runs_that_wrote
        from metadata.services.notices import provide_wake

        register()
        observed_states.provide(look)
        writing_runs.provide(runs_that_wrote)
        provide_wake(wake_for_deliveries)
