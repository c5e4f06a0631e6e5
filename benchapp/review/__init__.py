"""Review by people: codebooks, queues, coding, results, comments, and who is blind to what. Its pages are in
`inspector/pages/review`."""
