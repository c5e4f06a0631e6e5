"""Pages of review queues."""
