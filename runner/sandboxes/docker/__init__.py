"""Sandboxes that are containers of a Docker engine: images, networks, limits, skills, removal. One module per kind of
request to the engine."""
