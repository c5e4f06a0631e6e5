"""Models of any provider that litellm speaks to. What holds for every call on the wire is in `wire`."""
