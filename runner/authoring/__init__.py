"""From evidence to a library edit: prompts, reading the answer, and checking it against the contract."""
