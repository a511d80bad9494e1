"""Inputs of applied columns that loads filled by their name: states say them from now on."""

from django.db import migrations


def read_by_name(states):
    """Return states, as stored, with the inputs of columns that had none: upstream columns of their name."""
    named = {
        state["key"]: {column["name"]: column["key"] for column in state["columns"] if column["active"]}
        for state in states
    }
    return [
        {**state, "columns": [_with_inputs(column, state["inputs"], named) for column in state["columns"]]}
        for state in states
    ]


def _with_inputs(column, upstream, named):
    if column["inputs"] or column["expression"]:
        return column
    read = (named[key].get(column["name"]) for key in upstream if key in named)
    return {**column, "inputs": [key for key in read if key]}


def say_inputs(apps, schema_editor):
    """Complete what was applied, so that the next report does not take inputs that were unsaid for new ones."""
    rows = apps.get_model("architecture", "AppliedDataset").objects.using(schema_editor.connection.alias)
    for environment in rows.order_by().values_list("environment", flat=True).distinct():
        applied = list(rows.filter(environment=environment))
        for row, state in zip(applied, read_by_name([row.state for row in applied]), strict=True):
            if state != row.state:
                rows.filter(pk=row.pk).update(state=state)


class Migration(migrations.Migration):
    dependencies = [("architecture", "0007_marks_and_kept_histories")]

    operations = [migrations.RunPython(say_inputs, migrations.RunPython.noop)]
