"""One file per command, named as it is called: arguments in, one call into a room, words or JSON out. No rule of the
record stands here."""
