"""The live channel: events of selections, and their subscribers."""
