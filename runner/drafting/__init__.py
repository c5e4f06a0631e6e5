"""Drafting tasks and skills with a model, step by step: what to ask next, and what an answer makes of the draft's files."""
