"""Lore for any client of chat completions: from its request to the messages that go on."""
