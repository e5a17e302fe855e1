"""Turns under the policy `replica`, and its book routes."""
