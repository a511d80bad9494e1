from django.apps import AppConfig


class ArchitectureConfig(AppConfig):
    name = "architecture"

    def ready(self) -> None:
        from architecture.selectors import applied_names, authors, environments, health, search, subjects
        from architecture.services import change_policy, row_signatures
        from architecture.services.health import follow_changes
        from elevata.accounts.places import ENVIRONMENT_NAMES
        from elevata.audit.services.retention import NEEDED_ENTRIES
        from elevata.audit.services.verification import COMPARISONS
        from elevata.web.search import KINDS
        from elevata.web.subjects import FINDERS, Finder
        from metadata.services.rows.row_changes import FOLLOWERS, IS_NAME_APPLIED

        COMPARISONS.add(change_policy.differing_policy, row_signatures.unproven_row)
        ENVIRONMENT_NAMES.provide(environments.environment_names)
        FINDERS.add(Finder("report", subjects.report_subject, comments=True))
        FOLLOWERS.add(follow_changes)
        IS_NAME_APPLIED.provide(applied_names.is_name_applied)
        KINDS.add(*search.KINDS)
        NEEDED_ENTRIES.add(authors.entries_needed)
        health.CHECKS.add(health.outdated_approvals, health.unowned_sources, health.unread_sources)
