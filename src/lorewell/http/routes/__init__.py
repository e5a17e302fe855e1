"""The routes, a module a resource (spec/native.md §6)."""
