"""Protocol engines, agents, sandboxes and models for skill-evolution runs. Independent of the web application."""

__version__ = "0.1.0"
