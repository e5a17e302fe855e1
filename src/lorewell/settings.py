"""The settings of the service, from the environment, a TOML file, or their defaults."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

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
from lorewell.model.prompt_settings import PROMPT_STRATEGY, PROMPT_TOKEN_BUDGET
from lorewell.outbound import is_web_address

PREFIX = "LOREWELL_"
CONFIG = "LOREWELL_CONFIG"
_LEDGER_KEEP = "LOREWELL_LEDGER_KEEP"
_MIB = 1024 * 1024


def _split(value: object) -> object:
    """Return the items of a comma-separated list, the form of lists in the environment."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Size = Annotated[int, Field(ge=1, le=2**40)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Given = TypeVar("Given")


class Settings(BaseSettings):
    """The settings of one service, read once at start.

    The first source that has a value wins: the arguments, the variable `LOREWELL_<NAME>`, the TOML
    file that `LOREWELL_CONFIG` names, the default.
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
        description="URL of the database: sqlite:///file.db or postgresql://user@host/name.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on. Any address but loopback requires auth.",
    )
    port: int = Field(8876, ge=0, le=65_535, description="Port to listen on; 0 picks a free port.")
    workers: int = Field(1, ge=1, le=256, description="Number of worker processes.")
    auth: bool = Field(default=False, description="Require an API key for every request.")
    allow_unauthenticated: bool = Field(
        default=False,
        description="Allow listening on addresses other than loopback without auth.",
    )
    allowed_hosts: Names = Field(
        (),
        description="Host names to accept besides loopback, with or without a port; * accepts any.",
    )
    cors_origins: Names = Field(
        (), description="Origins of other web pages that may call the service."
    )
    max_file_bytes: Size = Field(16 * _MIB, description="Maximum size of one file in bytes.")
    max_files_bytes: Size = Field(
        48 * _MIB, description="Maximum size of all files of one request in bytes."
    )
    max_body_bytes: Size = Field(48 * _MIB, description="Maximum size of a request body in bytes.")
    max_bodies_bytes: Size = Field(
        256 * _MIB,
        description="Maximum bytes of request bodies held per process; one tenant may use half.",
    )
    max_unread_bytes: Size = Field(
        128 * _MIB,
        description="Maximum bytes of answers above 64 KiB that a process holds while clients "
        "read them; one tenant may use half.",
    )
    max_turn_bytes: Size = Field(
        24 * _MIB,
        description="Maximum size in bytes of the body of a turn without inline native books.",
    )
    max_json_values: Size = Field(
        2_000_000, description="Maximum number of values and member names in a JSON body."
    )
    max_snapshot_entries: int = Field(
        10_000, ge=1, description="Maximum number of entries in all books of one selection."
    )
    max_snapshot_chars: int = Field(
        10_000_000, ge=1, description="Maximum characters of content in all books of one selection."
    )
    compute_threads: int = Field(
        1,
        ge=1,
        le=64,
        description="Compute threads per process. To use more cores, add workers instead.",
    )
    compute_requests: int = Field(
        64,
        ge=2,
        le=10_000,
        description="Maximum number of requests that a process computes in turn.",
    )
    compute_tenant_requests: int = Field(
        4, ge=1, le=10_000, description="Maximum number of these requests from one tenant."
    )
    compute_queue: int = Field(
        256,
        ge=1,
        le=100_000,
        description="Maximum number of requests that wait to be computed, per process.",
    )
    compute_tenant_queue: int = Field(
        64,
        ge=1,
        le=100_000,
        description="Maximum number of these waiting requests from one tenant.",
    )
    queue_seconds: Seconds = Field(
        10.0, description="Maximum seconds that a request waits to be computed."
    )
    turn_seconds: Seconds = Field(
        2.0, description="Maximum seconds that a request computes, not counting the time it waits."
    )
    import_seconds: Seconds = Field(
        20.0, description="The same limit for a request that reads or writes whole books."
    )
    max_steps: int = Field(
        MAX_STEPS,
        ge=1_000,
        le=10**12,
        description="Maximum steps of work per request, about a microsecond each. A request takes "
        "the same number of steps on every machine.",
    )
    max_import_steps: int = Field(
        MAX_IMPORT_STEPS,
        ge=1_000,
        le=10**12,
        description="Maximum steps to read one foreign file; 16 MiB usually take 3,000,000.",
    )
    max_made_chars: int = Field(
        MAX_CHARS,
        ge=1_000,
        le=10**12,
        description="Maximum characters that macros, templates and escapes produce in one request.",
    )
    shutdown_seconds: Seconds = Field(
        10.0, description="Seconds within which a process exits after it was asked to stop."
    )
    cache_bytes: int = Field(
        128 * _MIB, ge=0, description="Approximate bytes of compiled books that a process caches."
    )
    vector_cache_bytes: int = Field(
        128 * _MIB,
        ge=0,
        description="Approximate bytes of vectors that a process caches for searches; SQLite only.",
    )
    ledger_keep_s: int = Field(
        3600,
        ge=0,
        le=31_536_000,
        validation_alias=AliasChoices(_LEDGER_KEEP, "ledger_keep_s"),
        description="Seconds for which a selection's ledger can be opened; 0 turns this off.",
    )
    max_conversation_states: int = Field(
        200,
        ge=1,
        le=1_000,
        description="Maximum timed states per conversation; the oldest are dropped first.",
    )
    max_variable_users: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Maximum users per tenant whose global variables are kept; those that changed "
        "longest ago are dropped first.",
    )
    live: bool = Field(
        default=False,
        description="Publish selections on the live channel of their prompt.",
    )
    live_keep_s: int = Field(
        600,
        ge=1,
        le=86_400,
        description="Seconds for which live events are kept for clients that reconnect.",
    )
    max_sockets: int = Field(
        1_000,
        ge=1,
        le=100_000,
        description="Maximum number of open sockets and live streams per process.",
    )
    max_tenant_sockets: int = Field(
        800,
        ge=1,
        le=100_000,
        description="Maximum number of open sockets and live streams of one tenant per process.",
    )
    max_connections: int = Field(
        2_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of open connections per process, sockets included. One more "
        "closes the connection that was idle longest.",
    )
    handover_bytes: int = Field(
        16_384,
        ge=0,
        le=2**40,
        description="Size in bytes above which a second process takes a request body; 0: never.",
    )
    body_timeout_s: Seconds = Field(
        30.0,
        description="Seconds to wait for a request body, plus one second for each 64 KiB received.",
    )
    tokenizer: str = Field(
        "cl100k_base",
        min_length=1,
        description="Tokenizer: cl100k_base, o200k_base, llama3, a model such as gpt-4o, the path "
        "of a tokenizer.json, or NAME=FILE as in LOREWELL_TOKENIZER_FILES.",
    )
    tokenizer_files: Names = Field(
        (),
        description="Tokenizers that requests can name, each as NAME=FILE with the path of its "
        "tokenizer.json: claude, command, deepseek, gemma, jamba, llama, llama3, mistral, nemo, "
        "qwen, yi.",
    )
    embedder: Literal["none", "openai", "local"] = Field(
        "none",
        description="Source of vectors: none, a server with OpenAI's embeddings API (openai), or "
        "the model of the extra local-embeddings (local).",
    )
    embedding_url: str = Field(
        "",
        repr=False,
        description="Base URL of the embedding server, such as http://127.0.0.1:8080/v1.",
    )
    embedding_api_key: str = Field(
        "",
        pattern="^[!-~]*$",
        repr=False,
        description="API key for the embedding server, if it requires one.",
    )
    embedding_model: str = Field(
        "", max_length=200, description="Name of the embedding model on the server."
    )
    embedding_dimensions: int = Field(
        0, ge=0, le=16_000, description="Number of dimensions of the model's vectors."
    )
    embedding_send_dimensions: bool = Field(
        default=False,
        description="Send the number of dimensions to the server; many servers reject it.",
    )
    embedding_query_prefix: str = Field(
        "",
        max_length=1_000,
        description="Text put before each query, if the model needs one, such as query:.",
    )
    embedding_text_prefix: str = Field(
        "",
        max_length=1_000,
        description="Text put before each indexed text, if the model needs one.",
    )
    embedding_batch_size: int = Field(
        64, ge=1, le=2_048, description="Maximum number of texts per embedding call."
    )
    embedding_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        description="Maximum parallel embedding calls per process; for texts and queries each.",
    )
    embedding_timeout_s: Seconds = Field(
        60.0, description="Seconds to wait for the vectors of texts, per attempt."
    )
    embedding_query_timeout_s: Seconds = Field(
        2.0,
        description="Seconds to wait for a query vector in all; then words alone decide.",
    )
    embedding_retries: int = Field(
        4, ge=0, le=20, description="Number of retries after embedding texts failed."
    )
    auto_index: bool = Field(
        default=False, description="Index new revisions at once; a prompt's setting wins."
    )
    index_lease_s: Seconds = Field(
        600.0,
        description="Seconds for which an index build counts as running after its last update.",
    )
    gateway_upstream_url: str = Field(
        "",
        repr=False,
        description="Base URL of the model server behind the gateway, without /chat/completions, "
        "such as http://127.0.0.1:11434/v1. Empty turns the gateway off.",
    )
    gateway_upstream_api_key: str = Field(
        "",
        pattern="^[!-~]*$",
        repr=False,
        description="The gateway's API key for the model server, if it requires one.",
    )
    gateway_upstream_model: str = Field(
        "",
        max_length=200,
        description="Model to request, whatever the client names; empty keeps the client's.",
    )
    gateway_tenant: str = Field(
        "default",
        pattern=r"^([A-Za-z0-9._:-]{1,100})?$",
        description="Tenant of the gateway without API keys, or for keys with several tenants.",
    )
    gateway_pass_authorization: bool = Field(
        default=False,
        description="Without API keys, pass the client's Authorization to the model server.",
    )
    gateway_context_window: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Context window in tokens that no gateway prompt may exceed; 0 is no limit.",
    )
    gateway_reserved_output: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Tokens of that window kept free for answers that the client does not limit.",
    )
    gateway_token_budget: int = Field(
        PROMPT_TOKEN_BUDGET,
        ge=0,
        le=32_000,
        description="Maximum tokens of lore that the gateway adds to a prompt.",
    )
    gateway_strategy: Literal["rules", "hybrid"] = Field(
        PROMPT_STRATEGY,
        description="Selection under the policy native: by rules alone, or hybrid with ranking.",
    )
    gateway_timeout_s: Seconds = Field(
        300.0,
        description="Seconds that the gateway waits for the next byte from the model server.",
    )
    gateway_stable_prefix: bool = Field(
        default=False,
        description="Put long-lasting lore first, for model servers that cache prompt prefixes.",
    )
    gateway_merge_adjacent: bool = Field(
        default=False,
        description="Merge adjacent messages of one role, for models with one system message.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people (console), or one JSON object per line (json)."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )
    demo_tenant: str = Field(
        "",
        pattern=r"^([A-Za-z0-9._:-]{1,100})?$",
        description="Tenant whose books the page /demo uses in a chat; empty turns the page off.",
    )
    replica_tenant: str = Field(
        "",
        pattern=r"^([A-Za-z0-9._:-]{1,100})?$",
        description="Tenant that the routes of SillyTavern_replica serve, /api/worldbooks and "
        "/api/chat; empty turns them off.",
    )
    postgres_pool_size: int = Field(
        10, ge=1, le=1_000, description="Number of PostgreSQL connections per process."
    )
    postgres_statement_cache_size: int = Field(
        100,
        ge=0,
        le=100_000,
        description="Prepared statements per connection; use 0 behind a transaction pooler.",
    )
    otel: bool = Field(
        default=False,
        description="Trace requests with OpenTelemetry, set up by OTEL_…; needs the extra otel.",
    )
    regex_engine: Literal["on", "off"] = Field(
        "on",
        description="Run regex keys; with off, their entries get the reason regex_unsupported. "
        "Read from the environment only.",
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
        if value and not is_web_address(value):
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
        """Return the sources of values, highest precedence first."""
        del dotenv_settings, file_secret_settings  # files in the working folder set nothing
        path = os.environ.get(CONFIG)
        if not path:
            return init_settings, env_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, path)


def env_name(name: str) -> str:
    """Return the environment variable of a setting.

    >>> env_name("max_file_bytes")
    'LOREWELL_MAX_FILE_BYTES'
    """
    return _LEDGER_KEEP if name == "ledger_keep_s" else PREFIX + name.upper()


def load_settings(**given: Any) -> Settings:  # noqa: ANN401  checked by the model
    """Return the settings; `given` wins over the other sources.

    Raises:
        ValidationFailedError: a value is invalid; each fault names the variable, and none quotes a
            URL or a key.
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
        faults = (Fault("", f"is not a TOML file: {error}", parameter=CONFIG),)
    # Outside the handler, so that no chained error shows the value.
    raise ValidationFailedError.at(*faults)


def _check_file(path: str | None) -> None:
    """Raise an OSError if the file is missing; its reader would treat it as empty."""
    if path:
        Path(path).stat()


def _fault(where: str, message: str, value: object) -> Fault:
    name = "ledger_keep_s" if where == _LEDGER_KEEP else where
    field = Settings.model_fields.get(name)
    if field is None:
        return Fault("", f"there is no setting {name!r}", parameter=CONFIG)
    # A value that is left out of `repr` may hold a password.
    shown = f" (is {value!r:.100})" if field.repr else ""
    return Fault("", f"{message}{shown}", parameter=env_name(name))
