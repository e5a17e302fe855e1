"""Turns under the policy `replica`."""
