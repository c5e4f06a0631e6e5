"""Models of any provider that litellm supports. `wire` has the rules for every call on the wire."""
