"""The eight filters that an entry must pass, in their order (docs/rules/native.md §8.2)."""

from __future__ import annotations

from typing import NamedTuple

from lorewell.engine.chance import roll
from lorewell.engine.conditions import counting, explain_false, in_state
from lorewell.engine.native.compile import CERTAIN
from lorewell.engine.native.compiled import CompiledEntry, Gate
from lorewell.engine.native.conditions import holds
from lorewell.engine.steps import Steps
from lorewell.engine.template import Template, substitute
from lorewell.model import Facts, PlacementCapabilities, Reason, SelectRequest
from lorewell.model.decision import NO_FACTS
from lorewell.model.text import is_blank

SELECTABLE_KINDS = frozenset({"lore", "character", "rule"})
_CHARS_PER_STEP = 500  # of a text after substitution
UNDECLARED = PlacementCapabilities(positions=("before_character", "after_character", "at_depth"))


class Refusal(NamedTuple):
    """The first filter that an entry fails in this request."""

    reason: Reason
    detail: str | None = None
    facts: Facts = NO_FACTS


class Eligibility:
    """Decides which entries are eligible in one request: those that pass all filters.

    An entry is filtered when first asked about: most entries of a large book never are.

    Attributes:
        nameless: by full id, the `{{char}}` or `{{user}}` without a value of the entries that were
            refused for it: those with a key, a flag, a rank or an entry that asked for them.
    """

    def __init__(self, request: SelectRequest, steps: Steps) -> None:
        """Take the request's audience, state, seed, variables and places."""
        self._request = request
        self._steps = steps
        self._refusals: dict[str | Gate, Refusal | None] = {}
        self._contents: dict[str, str] = {}
        self._places = request.placement_capabilities or UNDECLARED
        self._table = counting(in_state(request.state), steps)
        self.nameless: dict[str, str] = {}
        self._variables = {str(name): value for name, value in request.template_vars.items()}

    def refusal(self, entry: CompiledEntry) -> Refusal | None:
        """Return the first filter that the entry fails, None if it is eligible."""
        key = entry.full_id if entry.gate is None else entry.gate
        if key not in self._refusals:
            refusal = self._refusals[key] = self._filter(entry)
            if refusal is not None and refusal.reason == "template_missing":
                self._note_name(entry)
        return self._refusals[key]

    def _filter(self, entry: CompiledEntry) -> Refusal | None:
        """Apply the eight filters in their order."""
        spec, request = entry.spec, self._request
        if not spec.enabled:
            return Refusal("disabled")
        if request.scene is not None:
            return Refusal("disabled", "the scene adds no lore")
        if request.audience not in spec.audience:
            return Refusal("audience_mismatch")
        return (
            (self._conditions(entry) if spec.conditions else None)
            or (self._condition_texts(entry) if entry.texts else None)
            or self._runtime(entry)
            or (self._chance(entry) if spec.probability < CERTAIN else None)
            or (self._template(entry.template) if entry.template else None)
            or (Refusal("empty_content") if self._is_blank(entry) else None)
            or self._placement(entry)
        )

    def _note_name(self, entry: CompiledEntry) -> None:
        """Keep the name that an entry lacks, unless it has an expression that no name fills."""
        template = entry.template
        if template is not None and template.unsupported is None:
            missing = min(template.variables - self._variables.keys())
            self.nameless[entry.full_id] = f"{{{{{missing}}}}}"

    def content(self, entry: CompiledEntry) -> str:
        """Return the text of an eligible entry after substitution."""
        template = entry.template
        if template is None:
            return entry.spec.content
        content = self._contents.get(entry.full_id)
        if content is None:
            length = template.length(self._variables)
            self._steps.write("macros", length)
            occurrences = sum(template.counts.values())
            self._steps.spend("macros", 1 + occurrences // 2 + length // _CHARS_PER_STEP)
            content = substitute(entry.spec.content, self._variables)
            self._contents[entry.full_id] = content
        return content

    def chance(self, entry: CompiledEntry) -> Facts:
        """Return the entry's roll and threshold, if its probability is below 100."""
        if entry.spec.probability >= CERTAIN:
            return NO_FACTS
        return Facts(roll=roll(self._request.seed, entry.spec.id), threshold=entry.spec.probability)

    def _is_blank(self, entry: CompiledEntry) -> bool:
        if entry.template is not None and entry.template.has_text:
            return False
        return is_blank(self.content(entry))

    def _conditions(self, entry: CompiledEntry) -> Refusal | None:
        for index, condition in enumerate(entry.spec.conditions):
            values = condition.value if isinstance(condition.value, list | dict) else ()
            self._steps.spend("conditions", 1 + len(values))
            if not holds(condition, self._request.state):
                return Refusal("condition_failed", f"{index}: {condition.path}")
        return None

    def _condition_texts(self, entry: CompiledEntry) -> Refusal | None:
        for index, condition in enumerate(entry.texts):
            why = explain_false(condition.parsed, self._table)
            if why is not None:
                return Refusal("condition_failed", f"text {index}: {condition.text}: {why}")
        return None

    def _runtime(self, entry: CompiledEntry) -> Refusal | None:
        spec = entry.spec
        kind = () if spec.kind in SELECTABLE_KINDS else (f"kind:{spec.kind}",)
        unmet = (*kind, *spec.runtime_requirements)
        return Refusal("runtime_unsupported", "; ".join(unmet)) if unmet else None

    def _chance(self, entry: CompiledEntry) -> Refusal | None:
        if roll(self._request.seed, entry.spec.id) < entry.spec.probability:
            return None
        return Refusal("probability", facts=self.chance(entry))

    def _template(self, template: Template) -> Refusal | None:
        if template.unsupported is not None:
            return Refusal("template_missing", template.unsupported)
        missing = sorted(template.variables - self._variables.keys())
        return Refusal("template_missing", f"{{{{{missing[0]}}}}}") if missing else None

    def _placement(self, entry: CompiledEntry) -> Refusal | None:
        spec = entry.spec
        if spec.position not in self._places.positions:
            return Refusal("placement_unsupported", spec.position)
        if spec.outlet_name is not None and spec.outlet_name not in self._places.outlets:
            return Refusal("placement_unsupported", f"outlet:{spec.outlet_name}")
        return None
