"""What comes next, given what happened. One file per protocol."""
