"""What every format reads with: bounded, lenient walks and documents, the values a format hands over, and reports of
what was left out. Stores nothing."""
