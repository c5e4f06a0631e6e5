"""What every format uses for reading: bounded, lenient walks and documents, the values a format returns, and reports of
what was left out. Stores nothing."""
