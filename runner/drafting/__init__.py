"""Drafting tasks and skills with a model, step by step: what to ask next, and how an answer changes the files."""
