"""Files that carry a document inside: what is taken out of them, and how it may be damaged."""
