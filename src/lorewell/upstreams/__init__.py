"""Model servers that a reply is asked of."""
