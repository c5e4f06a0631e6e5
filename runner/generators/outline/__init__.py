"""The bundled generator: an outline of a corpus as a skill."""
