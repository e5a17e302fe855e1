"""Use cases: what a service does with books, whoever asks for it."""
