"""The use cases of the service, independent of HTTP and SQL."""
