"""The settings as a table and as variables: names, values, units and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lorewell.settings import Settings, env_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """A setting, described.

    Attributes:
        name: its name in the TOML file.
        env: its environment variable.
        default: as it is written in the environment.
        unit: the unit of a number; None if it has none.
        help: one or two sentences.
    """

    name: str
    env: str
    default: str
    unit: str | None
    help: str


_UNITS = {
    "_bytes": "bytes",
    "_s": "seconds",
    "_seconds": "seconds",
    "_chars": "characters",
    "_entries": "entries",
    "_states": "states",
}


def to_environment(settings: Settings) -> Mapping[str, str]:
    """Return the variables that give these settings to a process without other such variables."""
    return {env_name(name): format_value(value) for name, value in settings if value != ()}


def format_value(value: object) -> str:
    """Return a value as it is written in the environment."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def list_settings() -> tuple[SettingInfo, ...]:
    """Return all settings, in the order of `Settings`."""
    return tuple(
        SettingInfo(
            name=name,
            env=env_name(name),
            default=format_value(field.default),
            unit=next((unit for end, unit in _UNITS.items() if name.endswith(end)), None),
            help=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )
