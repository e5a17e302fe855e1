"""Turns under the policy `sillytavern`, and the timed state of conversations."""
