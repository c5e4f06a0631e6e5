"""What can be said of a library by reading it: rules over its files and over what its episode saw. No database here,
except in `evidence` (what the episode saw) and `storing` (rows)."""
