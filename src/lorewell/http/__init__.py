"""The HTTP service: routes that parse, authorise, call one use case, convert and answer."""
