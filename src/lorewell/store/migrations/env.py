"""Run by alembic for each command: on the connection that the command was given."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
