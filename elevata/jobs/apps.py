from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "elevata.jobs"
    label = "jobs"
