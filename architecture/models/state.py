"""Environments, and what was last executed in each."""

from django.db import models


class Environment(models.Model):
    """dev, test, prod…: one warehouse with its own applied state."""

    name = models.CharField(max_length=50, unique=True)
    warehouse = models.CharField(max_length=1000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AppliedTable(models.Model):
    """The structure a table had after the last finished operation on it, per environment.

    ``table_key`` is the stable key, ``structure`` the table as ``architecture.domain.tables``
    describes it, ``table_version`` the Delta version that was observed with it.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="applied_tables")
    table_key = models.UUIDField()
    qualified_name = models.CharField(max_length=310)
    structure = models.JSONField()
    table_version = models.BigIntegerField()
    execution = models.ForeignKey("architecture.Execution", on_delete=models.PROTECT, null=True, related_name="+")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["environment", "qualified_name"]
        constraints = [models.UniqueConstraint(fields=["environment", "table_key"], name="applied_table_once")]

    def __str__(self) -> str:
        return f"{self.environment}: {self.qualified_name}"
