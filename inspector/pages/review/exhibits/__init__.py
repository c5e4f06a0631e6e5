"""Evidence as a reviewer sees it, masked where the queue is blind."""
