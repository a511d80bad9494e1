from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("metadata", "0009_audit_segments"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="right",
            options={
                "default_permissions": (),
                "managed": False,
                "permissions": [
                    ("change_metadata", "Can change metadata"),
                    ("approve_reports", "Can approve and reject change reports"),
                    ("execute_reports", "Can preview and execute change reports"),
                    ("manage_policies", "Can change the policies of environments"),
                    ("manage_people", "Can manage people, roles and tokens"),
                    ("manage_webhooks", "Can manage webhooks and see what was sent to them"),
                ],
            },
        ),
    ]
