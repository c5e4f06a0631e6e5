"""The evidence of an item as a reviewer may see it: folded, and masked where the queue is blind."""
