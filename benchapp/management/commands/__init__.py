"""One file per command, named as it is called: arguments in, one call into a room, words or JSON out. Rules of the
record belong elsewhere."""
