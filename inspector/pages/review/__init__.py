"""`/review/`: codebooks, queues, coding, results and suggestions, a folder each."""
