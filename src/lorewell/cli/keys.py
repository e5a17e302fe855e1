"""Commands that create, list and revoke API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from lorewell.cli.library import CommandContext, library_options_without_tenant
from lorewell.cli.listings import keys_table
from lorewell.cli.option_values import parse_options
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.model import KeyRequest

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


@app.command("create")
@library_options_without_tenant
def create_command(
    context: CommandContext,
    *,
    tenant: Annotated[
        list[str], typer.Option(help="Tenant that the key opens, * for all (repeatable).")
    ],
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="read|write|tenant_admin|admin|metrics",
            help="Permission of the key (repeatable).",
        ),
    ],
    name: Annotated[str, typer.Option(help="Note on the key's use.")] = "",
) -> None:
    """Create an API key. Its secret is printed once and can't be read again."""
    members = {"name": name, "tenants": tenant, "scopes": scope}
    request = parse_options(
        KeyRequest, members, {"name": "--name", "tenants": "--tenant", "scopes": "--scope"}
    )
    with context.open() as library:
        key = library.create_key(request)
    if context.as_json:
        print_json(key)
    else:
        say(key.secret)  # alone on stdout, so that a script can take it
        say(f"Key {key.id}. Store the secret now: it is not shown again.", err=True)


@app.command("list")
@library_options_without_tenant
def list_command(context: CommandContext) -> None:
    """List all API keys, oldest first, including revoked ones. Secrets are never shown."""
    with context.open() as library:
        keys = library.list_keys()
    if context.as_json:
        print_json(keys)
    else:
        print_parts(keys_table(keys.keys))


@app.command("revoke")
@library_options_without_tenant
def revoke_command(
    context: CommandContext,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key.")],
) -> None:
    """Revoke an API key for good."""
    with context.open() as library:
        library.revoke_key(key)
    if not context.as_json:
        say(f"Revoked {key}.")
