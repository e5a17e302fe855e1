"""The command that runs the service with its gateway on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from lorewell.cli.printing import say
from lorewell.cli.service import Database
from lorewell.errors import Fault, ValidationFailedError

if TYPE_CHECKING:
    from lorewell.settings import Settings

# What it needs is loaded when it runs, as in cli/service.py.


def gateway_command(  # noqa: PLR0913  an option is a parameter
    *,
    url: Annotated[
        str | None,
        typer.Option(help="The model server, up to what comes before /chat/completions."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The model to ask it for; clients then choose prompts as models."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Its key. LOREWELL_GATEWAY_UPSTREAM_API_KEY shows it to no list of processes."
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose books are used.")] = None,
    window: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="The model's window; 0 checks nothing.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Tokens of lore at most.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port.")] = None,
    database: Database = None,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Whether requests need an API key.")
    ] = None,
) -> None:
    """Run the service with its gateway on: any chat client gets lore by another base URL."""
    from lorewell.http.server import serve  # noqa: PLC0415  see above
    from lorewell.settings import load_settings  # noqa: PLC0415

    options = {
        "gateway_upstream_url": url,
        "gateway_upstream_model": model,
        "gateway_upstream_api_key": key,
        "gateway_tenant": tenant,
        "gateway_context_window": window,
        "gateway_token_budget": budget,
        "host": host,
        "port": port,
        "database_url": database,
        "auth": auth,
    }
    given = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(**given)
    if not settings.gateway_upstream_url:
        fault = Fault("", "must be set, or --url be given", "LOREWELL_GATEWAY_UPSTREAM_URL")
        raise ValidationFailedError.at(fault)
    for line in _lines(settings):
        say(line)
    serve(settings)


def _lines(settings: Settings) -> list[str]:
    """Return what a person needs to know to use the gateway."""
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    to = urlsplit(settings.gateway_upstream_url)
    where = f"{to.scheme}://{to.netloc.rpartition('@')[2]}{to.path}"
    as_model = settings.gateway_upstream_model
    rule = (
        "The header X-Lorewell-Prompt says which prompt's books are used; without it the "
        "request's `user`, and then its `model`."
    )
    lines = [
        f"Base URL for your client: http://{name}:{settings.port}/gateway/v1",
        f"Chats go on to {where}{f', as the model {as_model}' if as_model else ''}.",
        rule,
    ]
    if settings.gateway_tenant:
        lines.append(
            f"Bind books with: lorewell bind PROMPT BOOK --tenant {settings.gateway_tenant}"
        )
    return lines
