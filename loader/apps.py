from django.apps import AppConfig


class LoaderConfig(AppConfig):
    name = "loader"
    verbose_name = "Loading"

    def ready(self) -> None:
        from architecture.services.states import observed_states, writing_runs
        from loader.management.refresh_command import look
        from loader.services.runs.writing_runs import runs_that_wrote

        observed_states.provide(look)
        writing_runs.provide(runs_that_wrote)
