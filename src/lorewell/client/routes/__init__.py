"""The routes of the service: what each takes, what it is asked, and what it gives.

Each function has the name of its operation and makes the `Call` that both clients send. Methods of
the clients take the same arguments, but for the session.
"""
