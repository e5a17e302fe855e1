"""Settings: where they come from, what is wrong with them, what there is to know of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from lorewell.errors import ValidationFailedError
from lorewell.settings import Settings, env_name, load_settings
from lorewell.settings_table import list_settings, to_environment

PASSWORD = "hunter2"  # noqa: S105  no password
OTHERS = {
    "database_url": "sqlite:///other.db",
    "host": "::1",
    "port": 1,
    "workers": 2,
    "auth": True,
    "allow_unauthenticated": True,
    "allowed_hosts": ("a", "b:1"),
    "cors_origins": ("https://a",),
    "max_file_bytes": 1,
    "max_files_bytes": 2,
    "max_body_bytes": 3,
    "max_bodies_bytes": 256 * 1024 * 1024,
    "max_unread_bytes": 128 * 1024 * 1024,
    "max_turn_bytes": 20,
    "max_json_values": 21,
    "max_snapshot_entries": 4,
    "max_snapshot_chars": 5,
    "compute_threads": 3,
    "compute_requests": 20,
    "compute_tenant_requests": 21,
    "compute_queue": 22,
    "compute_tenant_queue": 23,
    "queue_seconds": 24.5,
    "turn_seconds": 25.5,
    "import_seconds": 29.5,
    "max_steps": 26_000,
    "max_import_steps": 26_500,
    "max_made_chars": 27_000,
    "shutdown_seconds": 28.5,
    "cache_bytes": 6,
    "vector_cache_bytes": 5,
    "ledger_keep_s": 0,
    "max_conversation_states": 8,
    "max_variable_users": 9,
    "live": True,
    "live_keep_s": 19,
    "max_sockets": 18,
    "max_tenant_sockets": 17,
    "max_connections": 99,
    "handover_bytes": 8_192,
    "body_timeout_s": 0.5,
    "tokenizer": "o200k_base",
    "tokenizer_files": ("claude=claude.json", "yi=/雾/yi.json"),
    "embedder": "openai",
    "embedding_url": "https://user:hunter2@雾.example/v1",
    "embedding_api_key": "sk-hunter2",
    "embedding_model": "嵌入",
    "embedding_dimensions": 9,
    "embedding_send_dimensions": True,
    "embedding_query_prefix": "query: ",
    "embedding_text_prefix": "passage: ",
    "embedding_batch_size": 10,
    "embedding_concurrency": 11,
    "embedding_timeout_s": 12.5,
    "embedding_query_timeout_s": 0.25,
    "embedding_retries": 0,
    "auto_index": True,
    "index_lease_s": 13.0,
    "gateway_upstream_url": "http://user:hunter2@雾.example/v1",
    "gateway_upstream_api_key": "sk-hunter2",
    "gateway_upstream_model": "雾渡",
    "gateway_tenant": "demo",
    "gateway_pass_authorization": True,
    "gateway_context_window": 14,
    "gateway_reserved_output": 15,
    "gateway_token_budget": 16,
    "gateway_strategy": "rules",
    "gateway_timeout_s": 17.5,
    "gateway_stable_prefix": True,
    "gateway_merge_adjacent": True,
    "log_format": "json",
    "log_level": "error",
    "demo_tenant": "demo",
    "replica_tenant": "demo",
    "postgres_pool_size": 7,
    "postgres_statement_cache_size": 0,
    "otel": True,
    "regex_engine": "off",
}
ANY_TEXT = {
    "demo_tenant",
    "replica_tenant",
    "allowed_hosts",
    "cors_origins",
    "host",
    "tokenizer",
    "tokenizer_files",
    "database_url",
    "embedding_url",
    "embedding_api_key",
    "embedding_model",
    "embedding_query_prefix",
    "embedding_text_prefix",
    "gateway_tenant",
    "gateway_upstream_api_key",
    "gateway_upstream_model",
    "gateway_upstream_url",
}
SERVER = {"embedding_url": "http://h/v1", "embedding_model": "m", "embedding_dimensions": 3}


def write(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("LOREWELL_CONFIG", str(path))


def test_every_setting_has_a_default_a_variable_and_a_help() -> None:
    known = list_settings()
    assert [each.name for each in known] == list(Settings.model_fields) == list(OTHERS)
    for each in known:
        assert each.help.endswith(".")
        assert each.env.startswith("LOREWELL_")
        if each.name.endswith(("_bytes", "_s", "_chars", "_entries", "_states")):
            assert each.unit
    assert env_name("ledger_keep_s") == "LOREWELL_LEDGER_KEEP"


def test_the_environment_wins_over_the_file_and_arguments_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = 'port = 1\nhost = "::1"\nledger_keep_s = 7\nallowed_hosts = ["a"]\n'
    write(tmp_path / "lorewell.toml", lines, monkeypatch)
    monkeypatch.setenv("LOREWELL_PORT", "2")
    found = load_settings(host="localhost")
    assert (found.port, found.host, found.ledger_keep_s) == (2, "localhost", 7)
    assert found.allowed_hosts == ("a",)
    monkeypatch.setenv("LOREWELL_LEDGER_KEEP", "8")
    monkeypatch.setenv("LOREWELL_ALLOWED_HOSTS", "b, c:1,")
    assert load_settings().ledger_keep_s == 8
    assert load_settings().allowed_hosts == ("b", "c:1")
    monkeypatch.setenv("LOREWELL_PORT", "")  # as if it were not there
    assert load_settings().port == 1


def test_a_process_can_tell_another_one_all_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(**OTHERS)
    assert {name: value for name, value in settings} == OTHERS  # noqa: C416  a dump would not do
    for name, value in to_environment(settings).items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings


def test_settings_never_change() -> None:
    with pytest.raises(ValidationError):
        load_settings().port = 1  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ANY_TEXT])
def test_a_wrong_value_is_told_by_its_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(env_name(name), "nonsense")
    with pytest.raises(ValidationFailedError, match=f"{env_name(name)}: .*nonsense") as told:
        load_settings()
    assert told.value.faults[0].parameter == env_name(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("database_url", [PASSWORD]),
        ("embedding_api_key", [PASSWORD]),
        ("embedding_api_key", f"{PASSWORD}\n"),
        ("embedding_api_key", f"{PASSWORD} 钥匙"),
        ("embedding_url", [PASSWORD]),
        ("embedding_url", f"ftp://user:{PASSWORD}@host/v1"),
        ("embedding_url", f"http://user:{PASSWORD}@"),
    ],
)
def test_a_password_is_told_to_nobody(name: str, value: object) -> None:
    with pytest.raises(ValidationFailedError) as told:
        load_settings(**{name: value})
    error: BaseException | None = told.value
    while error is not None:
        assert PASSWORD not in repr(error)
        error = error.__cause__ or error.__context__
    assert told.value.faults[0].parameter == env_name(name)


def test_settings_show_no_password() -> None:
    settings = load_settings(**OTHERS | {"database_url": f"postgresql://user:{PASSWORD}@host/l"})
    assert PASSWORD not in f"{settings!r} {settings}"
    assert all(PASSWORD not in repr(each) for each in list_settings())


@pytest.mark.parametrize("missing", list(SERVER))
def test_an_embedding_server_needs_url_model_and_dimensions(missing: str) -> None:
    given = {name: value for name, value in SERVER.items() if name != missing}
    with pytest.raises(ValidationFailedError, match=f"{env_name(missing)}: must be set") as told:
        load_settings(embedder="openai", **given)
    assert [fault.parameter for fault in told.value.faults] == [env_name(missing)]
    assert load_settings(embedder="openai", **SERVER).embedding_model == "m"
    for kind in ("none", "local"):
        assert load_settings(embedder=kind, **given).embedder == kind


@pytest.mark.parametrize(
    "url",
    ["nonsense", "ftp://h/v1", "http://", "https:///v1", "http://h:99999", "http://[h", "/v1"],
)
def test_an_embedding_url_is_a_web_address(url: str) -> None:
    with pytest.raises(ValidationFailedError, match="LOREWELL_EMBEDDING_URL: must be a URL"):
        load_settings(embedding_url=url)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense = 1", "no setting 'nonsense'"),
        ("port 1", "not a TOML"),
        ("port = '\udcff'", "TOML"),
    ],
)
def test_a_bad_file_is_told(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lorewell.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    monkeypatch.setenv("LOREWELL_CONFIG", str(path))
    with pytest.raises(ValidationFailedError, match=f"LOREWELL_CONFIG: .*{reason}"):
        load_settings()


def test_a_file_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOREWELL_CONFIG", "/no/such/file.toml")
    with pytest.raises(ValidationFailedError, match="LOREWELL_CONFIG: can't be read"):
        load_settings()
