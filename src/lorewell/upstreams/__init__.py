"""Adapters to servers that speak the protocol of chat completions."""
