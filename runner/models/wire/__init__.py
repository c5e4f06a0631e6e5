"""Model calls on the wire: bounded, streamed, retried, and their errors in words."""
