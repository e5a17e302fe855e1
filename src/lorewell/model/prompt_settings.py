"""Settings of a prompt: how its turns use its books, under each policy's own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from lorewell.model.activate import Mending, SillyTavernSettings
from lorewell.model.base import Contract
from lorewell.model.conversation import VectorSearch
from lorewell.model.descriptions import describe_model
from lorewell.model.scene import Scene, members_of
from lorewell.model.select import RecallFloor, SelectOptions, Strategy
from lorewell.model.text import Count, Flag, Name, fault, pointer

# The defaults of every turn that has a prompt, and of `lorewell select`.
PROMPT_STRATEGY: Final[Strategy] = "hybrid"
PROMPT_TOKEN_BUDGET: Final = 2_400
PROMPT_RECALL_FLOOR: Final[RecallFloor] = "auto"

_BUDGET = frozenset({"world_info_budget", "world_info_budget_cap"})
_MAX_QUOTED = 100
_LASTING: Final = (
    *("names", "character", "persona", "state", "tables", "audience"),
    "tokenizer",
)


def _describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Describe a schema. Its members have no defaults: one that is not given has no effect."""
    for member in schema["properties"].values():
        member.pop("default", None)
    describe_model(schema, model)


class Given(Contract):
    """Values of which only those that were given count; the others are left out when written."""

    model_config = ConfigDict(json_schema_extra=_describe)

    @model_validator(mode="before")
    @classmethod
    def _name_the_valid(cls, value: object, info: ValidationInfo) -> object:
        # Without a context, an answer of a newer service is read, or Python code made the value.
        if info.context is None or not isinstance(value, dict):
            return value
        for name in value:
            if name not in cls.model_fields:
                raise fault(pointer(str(name)[:_MAX_QUOTED]), _choice(cls.model_fields))
        return value

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # noqa: ANN202  a type would replace the schema
        return {name: each for name, each in write(self).items() if name in self.model_fields_set}

    def given(self) -> Mapping[str, Any]:
        """Return the given values by name, in the order of the fields."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set)
        return {name: getattr(self, name) for name in names}


def _choice(names: Mapping[str, object]) -> str:
    if not names:
        return "there is no such setting: this policy has none"
    return f"there is no such setting; choose from {', '.join(names)}"


def _without_null(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: _without_null(each) for name, each in value.items() if each is not None}


class NativeDefaults(Given, SelectOptions):
    """Settings of the policy `native`: what a turn of the prompt uses where it gives no value."""


PROMPT_DEFAULTS: Final = NativeDefaults(
    strategy=PROMPT_STRATEGY, token_budget=PROMPT_TOKEN_BUDGET, recall_floor=PROMPT_RECALL_FLOOR
)


class SillyTavernDefaults(Given, SillyTavernSettings):
    """Settings of the policy `sillytavern`: SillyTavern's own, and those of a request.

    Attributes:
        context_tokens: size of the model's context; null takes the one that the turn knows.
        message_tokens: tokens that each counted text costs on top of its own.
        tokenizer: the tokenizer of the budget, or a model for its tokenizer; null means the
            service's own.
        vectors: activate entries that are similar to the newest messages; null turns it off.
        mending: switches that fix behaviour that looks unintended.
    """

    context_tokens: Count | None = None
    message_tokens: Count = 0
    tokenizer: Name | None = None
    vectors: VectorSearch | None = None
    mending: Mending = Mending()

    def without_budget(self) -> Self:
        """Return the settings without a budget of their own."""
        return type(self)(**{n: each for n, each in self.given().items() if n not in _BUDGET})


class ReplicaDefaults(Given):
    """Settings of the policy `replica`, which has none."""


class PromptSettings(Given):
    """How the turns of a prompt use its books.

    A value of a turn's own request wins over these, and these win over the settings of the service
    or host. Only the settings of the policy in force apply.

    Attributes:
        native: under the policy `native`, with the names of a SelectRequest.
        sillytavern: under the policy `sillytavern`, with SillyTavern's names and those of an
            ActivateRequest.
        replica: under the policy `replica`.
        scene: values that a turn's scene has unless the turn gives them: of `names`, `character`,
            `persona`, `state`, `tables` and `audience`, under every policy that can use them, and
            `tokenizer`, where a prompt is put together.
        auto_index: index each new revision of the books at once; null follows the service.
    """

    native: NativeDefaults = NativeDefaults()
    sillytavern: SillyTavernDefaults = SillyTavernDefaults()
    replica: ReplicaDefaults = ReplicaDefaults()
    scene: Scene | None = None
    auto_index: Flag | None = None

    @field_serializer("scene", mode="wrap")
    def _write_scene(self, scene: Scene | None, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # noqa: ANN202  a type would replace the schema
        return _without_null(write(scene))

    @field_validator("scene", mode="after")
    @classmethod
    def _check_scene(cls, scene: Scene | None) -> Scene | None:
        for member in () if scene is None else members_of(scene):
            if member.name.partition(".")[0] not in _LASTING:
                detail = f"belongs to a turn; a prompt can give {', '.join(_LASTING)}"
                raise fault(pointer(*member.name.split(".")), detail)
        return scene


NO_SETTINGS: Final = PromptSettings()
