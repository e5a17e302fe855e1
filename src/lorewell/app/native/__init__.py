"""Selections and searches under the policy `native`."""
