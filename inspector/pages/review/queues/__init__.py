"""Pages of queues: making one, its items, its people, how far it is."""
