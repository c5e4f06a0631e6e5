"""Which step most likely decided a check: found by rules over the steps, never guessed by a model."""
