"""Protocol engines, agents, sandboxes and models for skill-evolution runs. Knows nothing of the web."""

__version__ = "0.1.0"
