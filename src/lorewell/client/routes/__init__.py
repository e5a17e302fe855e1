"""The routes of the service: the arguments, request and answer of each.

Each function has the name of its operation and returns the `ClientCall` that both clients send.
The clients' methods take the same arguments, without the session.
"""
