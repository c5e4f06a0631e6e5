from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0001_squashed_0029_joined_suites")]
    operations = [migrations.RemoveField(model_name="comparison", name="correction")]
