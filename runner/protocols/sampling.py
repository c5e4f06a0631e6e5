"""How the author is sampled. The agent's sampling is its own; both are part of the setup."""

AUTHOR_TEMPERATURE = 0.2
AUTHOR_MAX_TOKENS = 16_384
