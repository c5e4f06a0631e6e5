"""Where the lines of a library come from: its states along the spine, which decision wrote each line, and which later
trials had it."""
