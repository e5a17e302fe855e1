"""The bindings of prompts, replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, exists, insert, select, true

from lorewell.app.rows import StoredBindings
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
_IS_BOUND = select(
    exists().where(
        bindings.c.tenant_id == bindparam("tenant"),
        bindings.c.book_id == bindparam("book"),
        bindings.c.enabled.is_(true()),
    )
)
_MAX_PROMPTS = 1_000
_PROMPTS = (
    select(bindings.c.prompt_id)
    .where(bindings.c.tenant_id == bindparam("tenant"), bindings.c.enabled.is_(true()))
    .distinct()
    .order_by(bindings.c.prompt_id)
    .limit(_MAX_PROMPTS)
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

    def is_bound(self, tenant_id: str, book_id: str) -> bool:
        """Return whether an enabled binding of any prompt names the book."""
        return bool(self._execute(_IS_BOUND, {"tenant": tenant_id, "book": book_id}).scalar())

    def list_prompts(self, tenant_id: str) -> Sequence[str]:
        """Return the prompts that have an enabled binding, in alphabetical order; 1,000 at most."""
        return [row["prompt_id"] for row in self._rows(_PROMPTS, tenant=tenant_id)]
