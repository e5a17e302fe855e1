"""The pure core: compile a book, match keys, decide, render. No clock, no I/O, no randomness."""
