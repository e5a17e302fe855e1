"""The pure core: compile a book, match, decide, render. No clock, no I/O, no randomness."""
