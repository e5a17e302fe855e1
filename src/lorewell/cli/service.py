"""Commands that run the service and maintain its database."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer

from lorewell.cli.listings import settings_table
from lorewell.cli.printing import print_json, print_parts, say

# Servers and databases are imported when a command runs: they would slow down all others.

Database = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Database URL; the one of the settings by default."),
]


def serve_command(  # noqa: PLR0913  an option is a parameter
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Number of worker processes.")
    ] = None,
    database: Database = None,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Require an API key, or not.")
    ] = None,
    allow_unauthenticated: Annotated[
        bool | None,
        typer.Option(
            "--allow-unauthenticated", help="Accept requests without a key from the whole network."
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when the sources change.")
    ] = False,
    sample: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Book to store for the tenant `sample` (repeatable)."),
    ] = None,
) -> None:
    """Run the HTTP service until it is stopped. Options override the settings."""
    from lorewell.cli.sample import curl_examples, store_samples  # noqa: PLC0415  see above
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
        for line in ("Try:", *curl_examples(settings, len(sample)), ""):
            say(line)
    serve(settings, reload=reload)


def migrate_command(*, database: Database = None) -> None:
    """Upgrade the database schema. Several processes may do so at the same time."""
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
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="File to create; it must not exist.")
    ],
    *,
    database: Database = None,
) -> None:
    """Copy an SQLite database into a new file and check the copy; the service may keep running."""
    from lorewell.cli.backup import back_up  # noqa: PLC0415  see above
    from lorewell.cli.local import settings_for  # noqa: PLC0415

    size = back_up(settings_for(database).database_url, target)
    say(f"Wrote {target}: {size} bytes, checked.")


def settings_command(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print the settings as JSON.")] = False
) -> None:
    """List all settings: environment variable, default, unit and meaning."""
    from lorewell.settings_table import list_settings  # noqa: PLC0415  see above

    settings = list_settings()
    if as_json:
        print_json(orjson.dumps([asdict(each) for each in settings]))
    else:
        print_parts(settings_table(settings))
