"""One installation: its processes, checks, broker and web workers."""
