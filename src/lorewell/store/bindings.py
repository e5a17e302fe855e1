"""The bindings of prompts, replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, exists, func, insert, select, true

from lorewell.app.rows import PromptRow, StoredBindings
from lorewell.model.binding import Binding
from lorewell.model.prompt_settings import PromptSettings
from lorewell.store.statements import Statements
from lorewell.store.tables import binding_sets, bindings

_OF_PROMPT = (bindings.c.tenant_id == bindparam("tenant")) & (
    bindings.c.prompt_id == bindparam("prompt")
)
_SET = select(binding_sets.c.policy, binding_sets.c.settings).where(
    binding_sets.c.tenant_id == bindparam("tenant"), binding_sets.c.prompt_id == bindparam("prompt")
)
_LIST = (
    select(
        bindings.c.book_id,
        bindings.c.revision,
        bindings.c.position,
        bindings.c.enabled,
        bindings.c.source,
    )
    .where(_OF_PROMPT)
    .order_by(bindings.c.slot)
)
_CLEAR = delete(bindings).where(_OF_PROMPT)
_INSERT = insert(bindings)
_PROMPTS = (
    select(
        binding_sets.c.prompt_id,
        binding_sets.c.policy,
        binding_sets.c.settings,
        func.count().label("book_count"),
    )
    .join(
        bindings,
        (bindings.c.tenant_id == binding_sets.c.tenant_id)
        & (bindings.c.prompt_id == binding_sets.c.prompt_id),
    )
    .where(binding_sets.c.tenant_id == bindparam("tenant"), bindings.c.enabled.is_(true()))
    .group_by(binding_sets.c.prompt_id, binding_sets.c.policy, binding_sets.c.settings)
    .order_by(binding_sets.c.prompt_id)
)
_users = bindings.alias("users")
_USES_BOOK = exists().where(
    _users.c.tenant_id == binding_sets.c.tenant_id,
    _users.c.prompt_id == binding_sets.c.prompt_id,
    _users.c.book_id == bindparam("book"),
    _users.c.enabled.is_(true()),
)


class BindingStatements(Statements):
    """The statements on bindings."""

    def find_bindings(self, tenant_id: str, prompt_id: str) -> StoredBindings | None:
        """Return a prompt's bindings; None if none were ever stored."""
        found = self._row(_SET, tenant=tenant_id, prompt=prompt_id)
        if found is None:
            return None
        rows = self._rows(_LIST, tenant=tenant_id, prompt=prompt_id)
        return StoredBindings(
            policy=found["policy"],
            bindings=tuple(Binding.model_validate(dict(row)) for row in rows),
            settings=PromptSettings.model_validate_json(found["settings"]),
        )

    def put_bindings(self, tenant_id: str, prompt_id: str, bindings: StoredBindings) -> None:
        """Replace all of a prompt's bindings."""
        # First the row of the set, which serializes concurrent replacements.
        self._put(
            binding_sets,
            {
                "tenant_id": tenant_id,
                "prompt_id": prompt_id,
                "policy": bindings.policy,
                "settings": bindings.settings.model_dump_json(),
            },
        )
        self._change(_CLEAR, tenant=tenant_id, prompt=prompt_id)
        rows = [
            {
                "tenant_id": tenant_id,
                "prompt_id": prompt_id,
                "slot": slot,
                "book_id": binding.book_id,
                "revision": binding.revision,
                "position": binding.position,
                "enabled": binding.enabled,
                "source": binding.source,
            }
            for slot, binding in enumerate(bindings.bindings)
        ]
        if rows:
            self._execute(_INSERT, rows)

    def list_prompts(
        self, tenant_id: str, *, limit: int, after: str | None = None, book_id: str | None = None
    ) -> Sequence[PromptRow]:
        """Return prompts that have an enabled binding, by name; with a book, those that use it."""
        statement, values = _PROMPTS.limit(limit), {"tenant": tenant_id}
        if after is not None:
            statement = statement.where(binding_sets.c.prompt_id > after)
        if book_id is not None:
            statement, values = statement.where(_USES_BOOK), {**values, "book": book_id}
        return [
            PromptRow(**{**row, "settings": PromptSettings.model_validate_json(row["settings"])})
            for row in self._rows(statement, **values)
        ]
