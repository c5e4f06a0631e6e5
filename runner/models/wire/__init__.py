"""Model calls on the wire, from any caller: bounds, streams, retries, metering, and providers' errors in words."""
