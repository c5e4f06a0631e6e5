"""One task's folder: its files, its task.toml, its declared evaluation, its key points. Which tasks a suite has is read
beside this folder."""
