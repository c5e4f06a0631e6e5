"""From evidence to a library edit: prompts, reading the answer, and the contract it is held against."""
