"""Every setting of the service: from the environment, else from a TOML file, else its default."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from lorewell.engine.steps import MAX_CHARS, MAX_STEPS
from lorewell.errors import Fault, ValidationFailedError
from lorewell.formats.notes import MAX_IMPORT_STEPS

PREFIX = "LOREWELL_"
CONFIG = "LOREWELL_CONFIG"
_LEDGER_KEEP = "LOREWELL_LEDGER_KEEP"
_MIB = 1024 * 1024
# Where a value is quoted by an error, it must not be one of these: they hold passwords.
_SECRET = frozenset(
    {
        "database_url",
        "embedding_api_key",
        "embedding_url",
        "gateway_upstream_api_key",
        "gateway_upstream_url",
    }
)


def _split(value: object) -> object:
    """Return the names in a list that is written with commas, as the environment has it."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Size = Annotated[int, Field(ge=1, le=2**40)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Given = TypeVar("Given")


class Settings(BaseSettings):
    """The settings of one service; read once, at start.

    A value is taken from what is given here, else from `LOREWELL_<NAME>`, else from the TOML file
    that `LOREWELL_CONFIG` names, else it is the default.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        env_ignore_empty=True,
    )

    database_url: str = Field(
        "sqlite:///lorewell.db",
        min_length=1,
        repr=False,
        description="Where everything is kept: sqlite:///file.db or postgresql://user@host/name.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="The address to listen on. Any but a loopback address asks for auth.",
    )
    port: int = Field(8876, ge=0, le=65_535, description="The port; 0 takes a free one.")
    workers: int = Field(1, ge=1, le=256, description="Processes that answer requests.")
    auth: bool = Field(default=False, description="Whether requests need an API key.")
    allow_unauthenticated: bool = Field(
        default=False,
        description="Whether to listen on other than loopback addresses without auth.",
    )
    allowed_hosts: Names = Field(
        (),
        description="Host names, with or without a port, that are answered beside loopback; "
        "* is any.",
    )
    cors_origins: Names = Field(
        (), description="Origins of other web pages that may use the service."
    )
    max_file_bytes: Size = Field(16 * _MIB, description="Bytes of one file at most.")
    max_files_bytes: Size = Field(
        48 * _MIB, description="Bytes of all files of one request at most."
    )
    max_body_bytes: Size = Field(48 * _MIB, description="Bytes of a request's body at most.")
    max_bodies_bytes: Size = Field(
        256 * _MIB,
        description="Bytes of all bodies that a process holds at once; of one tenant half.",
    )
    max_unread_bytes: Size = Field(
        128 * _MIB,
        description="Bytes of all answers above 64 KiB that wait for their clients to read them, "
        "of each process; of one tenant half.",
    )
    max_turn_bytes: Size = Field(
        24 * _MIB, description="Bytes of the body of a turn without inline native books at most."
    )
    max_json_values: Size = Field(
        2_000_000, description="Values and member names of a JSON body at most."
    )
    max_snapshot_entries: int = Field(
        10_000, ge=1, description="Entries of all books of one selection at most."
    )
    max_snapshot_chars: int = Field(
        10_000_000, ge=1, description="Characters of content of all books of one selection at most."
    )
    compute_threads: int = Field(
        1,
        ge=1,
        le=64,
        description="Threads of a process that compute at the same time. Python runs one of them "
        "at a time, so more cores take more workers.",
    )
    compute_requests: int = Field(
        64, ge=2, le=10_000, description="Requests that a process computes in turn."
    )
    compute_tenant_requests: int = Field(
        4, ge=1, le=10_000, description="Requests of one tenant among them."
    )
    compute_queue: int = Field(
        256, ge=1, le=100_000, description="Requests that wait to be computed by a process."
    )
    compute_tenant_queue: int = Field(
        64, ge=1, le=100_000, description="Requests of one tenant among them."
    )
    queue_seconds: Seconds = Field(
        10.0, description="Seconds for which a request waits to be computed."
    )
    turn_seconds: Seconds = Field(
        2.0, description="Seconds for which a request computes, without those that it waits."
    )
    import_seconds: Seconds = Field(
        20.0, description="The same for a request that brings or takes whole books."
    )
    max_steps: int = Field(
        MAX_STEPS,
        ge=1_000,
        le=10**12,
        description="Steps of work of one request, about a microsecond each; the same request "
        "takes as many on every machine.",
    )
    max_import_steps: int = Field(
        MAX_IMPORT_STEPS,
        ge=1_000,
        le=10**12,
        description="Steps to read one foreign file; an honest one of 16 MiB takes 3,000,000.",
    )
    max_made_chars: int = Field(
        MAX_CHARS,
        ge=1_000,
        le=10**12,
        description="Characters that macros, templates and escapes make in one request.",
    )
    shutdown_seconds: Seconds = Field(
        10.0, description="Seconds within which a process ends that is told to stop."
    )
    cache_bytes: int = Field(
        128 * _MIB, ge=0, description="Bytes of compiled books that a process holds, roughly."
    )
    vector_cache_bytes: int = Field(
        128 * _MIB,
        ge=0,
        description="Bytes of vectors that a process holds for searches, roughly; on SQLite alone.",
    )
    ledger_keep_s: int = Field(
        3600,
        ge=0,
        le=31_536_000,
        validation_alias=AliasChoices(_LEDGER_KEEP, "ledger_keep_s"),
        description="Seconds for which a selection's ledger can be opened later; 0 is off.",
    )
    max_conversation_states: int = Field(
        200,
        ge=1,
        le=1_000,
        description="Timed states kept of one conversation at most; the oldest go first.",
    )
    live: bool = Field(
        default=False,
        description="Whether selections are published to those who watch their prompt.",
    )
    live_keep_s: int = Field(
        600,
        ge=1,
        le=86_400,
        description="Seconds for which such an event is kept for those who connect again.",
    )
    max_sockets: int = Field(
        1_000,
        ge=1,
        le=100_000,
        description="Sockets and live streams open at the same time, of each process.",
    )
    max_tenant_sockets: int = Field(
        800,
        ge=1,
        le=100_000,
        description="Those of one tenant at most, of each process, so that others find room.",
    )
    max_connections: int = Field(
        2_000,
        ge=1,
        le=1_000_000,
        description="Connections open at the same time, of each process, sockets included; for one "
        "more, the one that was idle for the longest time is closed.",
    )
    body_timeout_s: Seconds = Field(
        30.0,
        description="Seconds to wait for a body, and longer by one for each 64 KiB received.",
    )
    tokenizer: str = Field(
        "cl100k_base",
        min_length=1,
        description="What tokens are counted with: cl100k_base, o200k_base, or the path of a "
        "tokenizer.json.",
    )
    embedder: Literal["none", "openai", "local"] = Field(
        "none",
        description="What makes vectors: nothing, a server that speaks OpenAI's protocol, or the "
        "model of the extra local-embeddings.",
    )
    embedding_url: str = Field(
        "",
        repr=False,
        description="The embedding server, up to what comes before /embeddings, such as "
        "http://127.0.0.1:8080/v1.",
    )
    embedding_api_key: str = Field(
        "",
        pattern="^[!-~]*$",
        repr=False,
        description="The embedding server's key, if it wants one.",
    )
    embedding_model: str = Field(
        "", max_length=200, description="The model's name at the embedding server."
    )
    embedding_dimensions: int = Field(
        0, ge=0, le=16_000, description="How many numbers a vector of that model has."
    )
    embedding_send_dimensions: bool = Field(
        default=False,
        description="Whether to ask the embedding server for vectors of that many numbers; many "
        "refuse to be asked.",
    )
    embedding_query_prefix: str = Field(
        "",
        max_length=1_000,
        description="Put before what is looked for, where the model wants it: query: or the like.",
    )
    embedding_text_prefix: str = Field(
        "",
        max_length=1_000,
        description="Put before texts that are to be found, where the model wants it.",
    )
    embedding_batch_size: int = Field(64, ge=1, le=2_048, description="Texts embedded in one call.")
    embedding_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        description="Calls for texts that run at the same time, of each process; as many for "
        "queries.",
    )
    embedding_timeout_s: Seconds = Field(
        60.0, description="Seconds to wait for the vectors of texts, at each attempt."
    )
    embedding_query_timeout_s: Seconds = Field(
        2.0,
        description="Seconds to wait for the vector of a query, with all attempts; then words "
        "alone decide.",
    )
    embedding_retries: int = Field(
        4, ge=0, le=20, description="Attempts to embed texts after the first one failed."
    )
    index_lease_s: Seconds = Field(
        600.0,
        description="Seconds for which a build of an index counts as running after its last sign "
        "of life.",
    )
    gateway_upstream_url: str = Field(
        "",
        repr=False,
        description="The model server that the gateway forwards to, up to what comes before "
        "/chat/completions, such as http://127.0.0.1:11434/v1; without it the gateway is off.",
    )
    gateway_upstream_api_key: str = Field(
        "",
        pattern="^[!-~]*$",
        repr=False,
        description="The gateway's own key for the model server, if that wants one.",
    )
    gateway_upstream_model: str = Field(
        "",
        max_length=200,
        description="What the gateway asks the model server for, whatever model a client names; "
        "empty leaves that name as it is.",
    )
    gateway_tenant: str = Field(
        "default",
        pattern=r"^([A-Za-z0-9._:-]{1,100})?$",
        description="Whose books the gateway uses without API keys, or with a key for several "
        "tenants.",
    )
    gateway_pass_authorization: bool = Field(
        default=False,
        description="Whether, without API keys, a client's own Authorization goes to the model "
        "server.",
    )
    gateway_context_window: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Tokens of the model's window, which no prompt of the gateway may exceed; 0 "
        "checks nothing.",
    )
    gateway_reserved_output: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Tokens of that window kept free for an answer whose length the client does "
        "not limit.",
    )
    gateway_token_budget: int = Field(
        2_400, ge=0, le=32_000, description="Tokens of lore that the gateway puts in at most."
    )
    gateway_strategy: Literal["rules", "hybrid"] = Field(
        "hybrid",
        description="How the gateway selects under the policy native: by rules alone, or with what "
        "ranks for the input too.",
    )
    gateway_timeout_s: Seconds = Field(
        300.0,
        description="Seconds for which the gateway waits for the model server's next byte.",
    )
    gateway_stable_prefix: bool = Field(
        default=False,
        description="Whether lore that stays for many turns stands first, for model servers that "
        "cache the beginning of a prompt.",
    )
    gateway_merge_adjacent: bool = Field(
        default=False,
        description="Whether the gateway joins neighbouring messages of one role, for models that "
        "take one system message.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people, or one JSON object a line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is logged at least."
    )
    demo_tenant: str = Field(
        "",
        pattern=r"^([A-Za-z0-9._:-]{1,100})?$",
        description="The tenant whose books the page /demo shows in a chat; empty turns it off.",
    )
    replica_tenant: str = Field(
        "",
        pattern=r"^([A-Za-z0-9._:-]{1,100})?$",
        description="The tenant that the routes of SillyTavern_replica serve, /api/worldbooks and "
        "/api/chat; empty turns them off.",
    )
    postgres_pool_size: int = Field(
        10, ge=1, le=1_000, description="Connections to PostgreSQL, of each process."
    )
    postgres_statement_cache_size: int = Field(
        100,
        ge=0,
        le=100_000,
        description="Prepared statements of a connection; 0 behind a pooler of transactions.",
    )
    otel: bool = Field(
        default=False,
        description="Whether requests are traced by OpenTelemetry, as OTEL_… say; an extra.",
    )
    regex_engine: Literal["on", "off"] = Field(
        "on",
        description="Whether regex keys are run; off makes their entries say regex_unsupported. "
        "Taken from the environment alone.",
    )

    @field_validator("embedding_url", "embedding_model", "embedding_dimensions")
    @classmethod
    def _check_needed(cls, value: Given, info: ValidationInfo) -> Given:
        if not value and info.data.get("embedder") == "openai":
            raise PydanticCustomError("needed", f"must be set for {PREFIX}EMBEDDER=openai")
        return value

    @field_validator("embedding_url", "gateway_upstream_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if value and not _is_web_address(value):
            raise PydanticCustomError("address", "must be a URL such as http://127.0.0.1:8080/v1")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where values come from, first the strongest."""
        del dotenv_settings, file_secret_settings  # a file in the working folder sets nothing
        path = os.environ.get(CONFIG)
        if not path:
            return init_settings, env_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def env_name(name: str) -> str:
    """Return the variable that sets a setting.

    >>> env_name("max_file_bytes")
    'LOREWELL_MAX_FILE_BYTES'
    """
    return _LEDGER_KEEP if name == "ledger_keep_s" else PREFIX + name.upper()


def to_environment(settings: Settings) -> Mapping[str, str]:
    """Return the variables that say the same to another process that has no others of ours."""
    return {env_name(name): written(value) for name, value in settings if value != ()}


def written(value: object) -> str:
    """Return a value as a person writes it in the environment."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def load_settings(**given: Any) -> Settings:  # noqa: ANN401  checked by the model
    """Return the settings; what is given wins.

    Raises:
        ValidationFailedError: a value can't be used; each fault names the variable, and no URL
            or key is told.
    """
    try:
        _check_file(os.environ.get(CONFIG))
        return Settings(**given)
    except ValidationError as error:
        faults = tuple(
            _fault(str(item["loc"][0]), item["msg"], item["input"])
            for item in error.errors(include_url=False, include_context=False)
        )
    except OSError as error:
        faults = (Fault("", f"can't be read: {error.strerror}", parameter=CONFIG),)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults = (Fault("", f"is no TOML file: {error}", parameter=CONFIG),)
    # Outside of the handler, so that no chained error shows the value.
    raise ValidationFailedError.at(*faults)


def _check_file(path: str | None) -> None:
    """Raise an OSError if the file is not there: its reader would take that for an empty one."""
    if path:
        Path(path).stat()


def _fault(where: str, message: str, value: object) -> Fault:
    name = "ledger_keep_s" if where == _LEDGER_KEEP else where
    if name not in Settings.model_fields:
        return Fault("", f"there is no setting {name!r}", parameter=CONFIG)
    shown = "" if name in _SECRET else f" (is {value!r:.100})"
    return Fault("", f"{message}{shown}", parameter=env_name(name))
