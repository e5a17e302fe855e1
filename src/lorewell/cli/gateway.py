"""The command that runs the service with its gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from lorewell.cli.printing import say
from lorewell.cli.service import Database
from lorewell.errors import Fault, ValidationFailedError

if TYPE_CHECKING:
    from lorewell.settings import Settings

# The server is imported when the command runs, as in cli/service.py.


def gateway_command(  # noqa: PLR0913  an option is a parameter
    *,
    url: Annotated[
        str | None,
        typer.Option(help="Base URL of the model server, without /chat/completions."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model to request there; clients then name a prompt as their model."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="API key of the model server. Prefer LOREWELL_GATEWAY_UPSTREAM_API_KEY: "
            "other users can see options in the process list."
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant whose books are used.")] = None,
    window: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", help="Context window of the model; 0 disables the check."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Token budget for lore.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    database: Database = None,
    auth: Annotated[
        bool | None, typer.Option("--auth/--no-auth", help="Require an API key, or not.")
    ] = None,
) -> None:
    """Run the service with its gateway, which adds lore to the chats of any OpenAI client."""
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
        fault = Fault("", "must be set, or pass --url", "LOREWELL_GATEWAY_UPSTREAM_URL")
        raise ValidationFailedError.at(fault)
    for line in _usage_lines(settings):
        say(line)
    serve(settings)


def _usage_lines(settings: Settings) -> list[str]:
    """Return the lines that explain how to use the gateway."""
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    to = urlsplit(settings.gateway_upstream_url)
    where = f"{to.scheme}://{to.netloc.rpartition('@')[2]}{to.path}"
    as_model = settings.gateway_upstream_model
    rule = (
        "The prompt whose books are used: the header X-Lorewell-Prompt, else the "
        "request's `user`, else its `model`."
    )
    lines = [
        f"Base URL for your client: http://{name}:{settings.port}/gateway/v1",
        f"Chats are forwarded to {where}{f', as the model {as_model}' if as_model else ''}.",
        rule,
    ]
    if settings.gateway_tenant:
        lines.append(
            f"Bind books with: lorewell bind PROMPT BOOK --tenant {settings.gateway_tenant}"
        )
    return lines
