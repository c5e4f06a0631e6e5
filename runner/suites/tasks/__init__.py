"""One task's folder: its files, its task.toml, its declared evaluation, its key points. The parent folder reads which
tasks a suite has."""
