"""Where the lines of a library come from: its states along the spine, the decision that wrote each line, and the later
trials that had it."""
