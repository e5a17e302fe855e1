"""The options and files of a scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lorewell.cli.option_values import parse_json_option
from lorewell.errors import ValidationFailedError
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneOptions:
    """The options of a scene; None where an option was not given.

    Attributes:
        scene: a JSON file with a scene; the other options override it.
        state: a JSON file with an object.
        table: a JSON object.
        char: value of `{{char}}`.
        user: value of `{{user}}`.
    """

    scene: Path | None
    state: Path | None
    table: str | None
    char: str | None
    user: str | None


def load_scene(options: SceneOptions) -> Scene | None:
    """Return the scene of the options; None without --scene, --state and --table.

    Raises:
        FileTooLargeError, ImportInvalidError, OSError: a file can't be used.
        MalformedJsonError: --table is not JSON.
        ValidationFailedError: the scene breaks its schema.
    """
    if options.scene is None and options.state is None and options.table is None:
        return None
    document = {} if options.scene is None else load_json(options.scene)
    subject = "The scene" if options.scene is None else f"The scene in {options.scene.name}"
    if isinstance(document, dict):
        document = {**document, **_overrides(options, document.get("names"))}
    try:
        return parse_model(Scene, document)
    except ValidationFailedError as error:
        raise naming(error, f"{subject} is not valid") from error


def _overrides(options: SceneOptions, names: object) -> dict[str, object]:
    """Return the members of the scene that options set."""
    given: dict[str, object] = {}
    if options.state is not None:
        given["state"] = load_json(options.state)
    if options.table is not None:
        given["tables"] = parse_json_option("--table", options.table)
    named = {"char": options.char, "user": options.user}
    own = {name: value for name, value in named.items() if value is not None}
    if own and (names is None or isinstance(names, dict)):  # the schema rejects anything else
        given["names"] = {**(names or {}), **own}
    return given
