import django.db.models.deletion
from django.db import migrations, models


SQLITE = (
    """CREATE VIRTUAL TABLE benchapp_searchindex USING fts5(words, content='', tokenize="ascii tokenchars '|=._'")""",
)
POSTGRESQL = (
    "CREATE TABLE benchapp_searchindex (rowid bigint PRIMARY KEY, words tsvector NOT NULL)",
    "CREATE INDEX benchapp_searchindex_words ON benchapp_searchindex USING gin (words)",
)


def make_index(apps, schema_editor):
    """The words themselves: no Django model, because each database has its own kind of table for them."""
    for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL:
        schema_editor.execute(statement)


def drop_index(apps, schema_editor):
    schema_editor.execute("DROP TABLE benchapp_searchindex")


class Migration(migrations.Migration):

    dependencies = [
        ('benchapp', '0008_library_findings'),
    ]

    operations = [
        migrations.CreateModel(
            name='SearchSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('library', models.CharField(blank=True, max_length=64)),
                ('cut', models.PositiveIntegerField(default=0)),
                ('problem', models.CharField(blank=True, max_length=500)),
                ('comment', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_source', to='benchapp.comment')),
                ('decision', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_source', to='benchapp.decision')),
                ('episode', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_source', to='benchapp.episode')),
                ('seeding', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_source', to='benchapp.seeding')),
                ('trajectory', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_source', to='benchapp.trajectory')),
                ('verdict', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_source', to='benchapp.verdict')),
            ],
        ),
        migrations.CreateModel(
            name='SearchDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('step', 'Step'), ('file', 'File'), ('decision', 'Decision'), ('check', 'Check'), ('note', 'Note')], max_length=16)),
                ('first_step', models.PositiveIntegerField(null=True)),
                ('last_step', models.PositiveIntegerField(null=True)),
                ('start', models.PositiveIntegerField(null=True)),
                ('end', models.PositiveIntegerField(null=True)),
                ('skill', models.CharField(blank=True, max_length=200)),
                ('path', models.CharField(blank=True, max_length=1000)),
                ('digest', models.CharField(blank=True, max_length=64)),
                ('chunk', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchapp.chunk')),
                ('episode', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchapp.episode')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchapp.run')),
                ('trial', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchapp.trial')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='benchapp.searchsource')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.AddConstraint(
            model_name='searchsource',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('comment__isnull', True), ('decision__isnull', True), ('episode__isnull', True), ('seeding__isnull', True), ('trajectory__isnull', False), ('verdict__isnull', True)), models.Q(('comment__isnull', True), ('decision__isnull', True), ('episode__isnull', True), ('seeding__isnull', True), ('trajectory__isnull', True), ('verdict__isnull', False)), models.Q(('comment__isnull', True), ('decision__isnull', False), ('episode__isnull', True), ('seeding__isnull', True), ('trajectory__isnull', True), ('verdict__isnull', True)), models.Q(('comment__isnull', True), ('decision__isnull', True), ('episode__isnull', True), ('seeding__isnull', False), ('trajectory__isnull', True), ('verdict__isnull', True)), models.Q(('comment__isnull', True), ('decision__isnull', True), ('episode__isnull', False), ('seeding__isnull', True), ('trajectory__isnull', True), ('verdict__isnull', True)), models.Q(('comment__isnull', False), ('decision__isnull', True), ('episode__isnull', True), ('seeding__isnull', True), ('trajectory__isnull', True), ('verdict__isnull', True)), _connector='OR'), name='search_source_owner'),
        ),
        migrations.AddIndex(
            model_name='searchdocument',
            index=models.Index(condition=models.Q(('skill', ''), _negated=True), fields=['skill'], name='search_skill'),
        ),
        migrations.RunPython(make_index, drop_index),
    ]
