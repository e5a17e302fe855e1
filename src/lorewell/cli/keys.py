"""Commands on API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from lorewell.cli.library import CommandContext, reaching_all_tenants
from lorewell.cli.listings import keys_table
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.model import KeyRequest
from lorewell.model.parse import parse_model

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


@app.command("create")
@reaching_all_tenants
def create_command(
    place: CommandContext,
    *,
    tenant: Annotated[
        list[str], typer.Option(help="Whose books it opens, * for all; may be repeated.")
    ],
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="read|write|tenant_admin|admin|metrics", help="What it may do; may be repeated."
        ),
    ],
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
) -> None:
    """Make an API key. Its secret is printed this once, and can't be read again."""
    members = {"name": name, "tenants": tenant, "scopes": scope}
    request = parse_model(KeyRequest, members)
    with place.open() as library:
        key = library.create_key(request)
    if place.as_json:
        print_json(key)
    else:
        say(key.secret)  # alone on stdout, so that a script can take it
        say(f"Key {key.id}. Keep the secret: it is not shown again.", err=True)


@app.command("list")
@reaching_all_tenants
def list_command(place: CommandContext) -> None:
    """List all API keys, oldest first, revoked ones too; never their secrets."""
    with place.open() as library:
        keys = library.list_keys()
    if place.as_json:
        print_json(keys)
    else:
        print_parts(keys_table(keys.keys))


@app.command("revoke")
@reaching_all_tenants
def revoke_command(
    place: CommandContext, key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id.")]
) -> None:
    """Close an API key for good."""
    with place.open() as library:
        library.revoke_key(key)
    if not place.as_json:
        say(f"Revoked {key}.")
