"""Review queues: what they are drawn from, how they are made, how far they are."""
