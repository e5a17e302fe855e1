"""Run by alembic for each command, on the connection of that command."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
