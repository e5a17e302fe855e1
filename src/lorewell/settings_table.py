"""What there is to know of all settings."""

from __future__ import annotations

from dataclasses import dataclass

from lorewell.settings import Settings, env_name, written


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """What there is to know of a setting.

    Attributes:
        name: as in the TOML file.
        env: the variable that sets it.
        default: as a person writes it.
        unit: of the number, None where it has none.
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


def list_settings() -> tuple[SettingInfo, ...]:
    """Return all settings, in their order here."""
    return tuple(
        SettingInfo(
            name=name,
            env=env_name(name),
            default=written(field.default),
            unit=next((unit for end, unit in _UNITS.items() if name.endswith(end)), None),
            help=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )
