from django.db import migrations

CLEAR_WORDS = {
    "sqlite": "INSERT INTO benchapp_searchindex(benchapp_searchindex) VALUES ('delete-all')",
    "postgresql": "TRUNCATE benchapp_searchindex",
}


def forget(apps, schema_editor):
    """Everything waits again: the words of a document hold its phase, role and condition now, and a filter would find no
    document of an older index."""
    schema_editor.execute("DELETE FROM benchapp_searchdocument")
    schema_editor.execute("DELETE FROM benchapp_searchsource")
    schema_editor.execute(CLEAR_WORDS[schema_editor.connection.vendor])


class Migration(migrations.Migration):

    dependencies = [
        ('benchapp', '0022_attempt_files'),
    ]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
