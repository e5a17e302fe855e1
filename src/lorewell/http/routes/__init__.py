"""The routes, a module a resource (docs/rules/native.md §6)."""
