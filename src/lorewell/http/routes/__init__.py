"""The routes, one module per resource (docs/rules/native.md §6)."""
