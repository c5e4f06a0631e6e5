"""Review by people: codebooks, queues, coding, results, comments, and who is blind to what. Pages of it are in
`inspector/pages/review`."""
