"""One task's folder: its files, its task.toml, how it is judged."""
