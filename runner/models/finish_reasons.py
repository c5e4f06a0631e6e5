"""Finish reasons that the runner acts on, under one name for every provider. All others stand as the provider gave them."""

TOO_LONG = "context_length"  # the conversation has outgrown what the model takes
FILTERED = "content_filter"  # the provider or the model withheld the reply
