"""Reports from water gauges."""

__version__ = "1.3"
