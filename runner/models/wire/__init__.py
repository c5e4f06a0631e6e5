"""Model calls on the wire, whoever makes them: bounds, streams, retries, metering, and providers' errors in words."""
