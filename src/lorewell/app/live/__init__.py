"""The live channel: what is told of selections, and to whom."""
