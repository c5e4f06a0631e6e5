"""Sandboxes that are containers of a Docker engine: images, networks, limits, skills, removal. One module per thing the
engine is asked for."""
