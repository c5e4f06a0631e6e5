"""Any provider that litellm speaks to."""
