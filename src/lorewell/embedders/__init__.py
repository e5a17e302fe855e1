"""Makes vectors of texts: by a server that speaks OpenAI's protocol, or a model at hand."""
