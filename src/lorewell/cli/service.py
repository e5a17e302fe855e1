"""Commands that run a service and look after its database."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer

from lorewell.cli.listings import settings_table
from lorewell.cli.printing import print_json, print_parts, say

# What these commands need is loaded when they run: servers and databases cost the others time.

Database = Annotated[
    str | None, typer.Option(metavar="URL", help="Another database than the settings'.")
]


def serve_command(  # noqa: PLR0913  an option is a parameter
    *,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one.")] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that answer requests.")
    ] = None,
    database: Database = None,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Whether requests need an API key.")
    ] = None,
    allow_unauthenticated: Annotated[
        bool | None,
        typer.Option(
            "--allow-unauthenticated", help="Let anybody on the network in, without a key."
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew whenever the sources change.")
    ] = False,
    sample: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A book for the tenant `sample`, to try it; may be repeated."
        ),
    ] = None,
) -> None:
    """Run the service until it is told to stop. Options win over the settings."""
    from lorewell.cli.sample import lines_to_try, store_samples  # noqa: PLC0415  see above
    from lorewell.http.server import serve  # noqa: PLC0415
    from lorewell.settings import load_settings  # noqa: PLC0415

    options = {
        "host": host,
        "port": port,
        "workers": workers,
        "database_url": database,
        "auth": auth,
        "allow_unauthenticated": allow_unauthenticated,
    }
    given = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(**given)
    if sample:
        asyncio.run(store_samples(settings, sample))
        for line in ("Try:", *lines_to_try(settings, len(sample)), ""):
            say(line)
    serve(settings, reload=reload)


def migrate_command(*, database: Database = None) -> None:
    """Bring the schema of the database up to date; several may do this at the same time."""
    from lorewell.bootstrap import build_services, start, stop  # noqa: PLC0415  see above
    from lorewell.cli.local import settings_for  # noqa: PLC0415

    async def migrate() -> None:
        services = build_services(settings_for(database))
        try:
            await start(services)
        finally:
            await stop(services)

    asyncio.run(migrate())
    say("The database is up to date.")


def backup_command(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to make.")],
    *,
    database: Database = None,
) -> None:
    """Copy the database into a new file and check the copy; the service may go on meanwhile."""
    from lorewell.cli.backup import back_up  # noqa: PLC0415  see above
    from lorewell.cli.local import settings_for  # noqa: PLC0415

    size = back_up(settings_for(database).database_url, target)
    say(f"{target}: {size} bytes, checked.")


def settings_command(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False
) -> None:
    """List every setting: the variable that sets it, its default, its unit, what it does."""
    from lorewell.settings_table import list_settings  # noqa: PLC0415  see above

    settings = list_settings()
    if as_json:
        print_json(orjson.dumps([asdict(each) for each in settings]))
    else:
        print_parts(settings_table(settings))
