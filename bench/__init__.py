"""Compares the engine with a naive keyword scan in one run: `python3 dev.py bench`."""
