"""The engine beside a naive keyword scan, in one run: `python3 dev.py bench`."""
