"""The tokens of a whole prompt, and how many of them a provider may have cached.

Source: docs/rules/host.md §9.

What a message costs: the tokens of its text; of a list of parts, those of each text, and a fixed
number for each part that is no text, since what a picture costs does not follow from its bytes.
Every member beside role and content (a name, tool calls, …) counts as it is written, as compact
JSON if it is no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile

from lorewell.engine.tokens import TokenCounter
from lorewell.errors import ContextOverflowError
from lorewell.host.draft import REAL, PromptMessage, ProviderMessage, role_of, text_of
from lorewell.model.assemble import DraftMessage, PromptBudget
from lorewell.model.assembled import PromptFigures, SharedPrefix

_BEGUN = re.compile(r"[^\W_]*[\W_]*")  # backwards: a word, and signs before it
_NOT_COUNTED = frozenset({"role", "content"})


def message_tokens(
    message: ProviderMessage, *, counter: TokenCounter, media_tokens: int = 1_000
) -> int:
    """Return the tokens of a message, without what every message costs beside its texts."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else [{"text": content}]
    total = 0
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            total += counter.count(text)
        elif content is not None:
            total += media_tokens
    others = (value for name, value in message.items() if name not in _NOT_COUNTED)
    return total + sum(_written_tokens(value, counter) for value in others if value is not None)


def _written_tokens(value: object, counter: TokenCounter) -> int:
    if isinstance(value, str):
        return counter.count(value)
    return counter.count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def measure(
    messages: Sequence[PromptMessage],
    draft: Sequence[DraftMessage],
    budget: PromptBudget,
    *,
    counter: TokenCounter,
) -> PromptFigures:
    """Return how much room the prompt takes.

    Args:
        messages: placed and merged.
        draft: what they were made of.
        budget: what counts beside the texts.
        counter: of the model that will read the prompt.

    Source: docs/rules/host.md §9.
    """

    def tokens(message: ProviderMessage) -> int:
        return message_tokens(message, counter=counter, media_tokens=budget.media_tokens)

    parts = [part for message in messages for part in message.parts]
    texts = sum(tokens(message.message) for message in messages)
    overhead = budget.message_overhead * len(messages)
    tools = sum(_written_tokens(tool, counter) for tool in budget.tools)
    return PromptFigures(
        needed_tokens=texts + overhead + tools + budget.reserved_output,
        window_tokens=budget.context_window,
        message_tokens=texts,
        overhead_tokens=overhead,
        tool_tokens=tools,
        reserved_tokens=budget.reserved_output,
        worldbook_tokens=sum(counter.count(part.block.text) for part in parts if part.block),
        history_tokens=sum(
            tokens(draft[part.draft_index].message)
            for part in parts
            if part.kind in REAL and part.draft_index is not None
        ),
        tokenizer=counter.name,
    )


def check_budget(figures: PromptFigures) -> None:
    """Raise ContextOverflowError, with the figures, if more is needed than the window has.

    Nothing is ever trimmed to make it fit. Exactly full is not too full.

    Source: docs/rules/host.md §9.
    """
    window = figures.window_tokens
    if window is not None and figures.needed_tokens > window:
        needed = figures.needed_tokens
        message = f"The prompt needs {needed} tokens, the model's window has {window}."
        raise ContextOverflowError(message, **asdict(figures))


def shared_prefix(
    messages: Sequence[ProviderMessage],
    previous: Sequence[ProviderMessage],
    budget: PromptBudget,
    *,
    counter: TokenCounter,
) -> SharedPrefix:
    """Return how much of the beginning of a prompt is that of the turn before.

    Of the first message that differs, the common beginning of its text counts, as far as its
    tokens are surely the same: up to the end of the last whole word.

    Args:
        messages: of this turn, as they are sent.
        previous: of the turn before, as they were sent.
        budget: what counts beside the texts.
        counter: of the model that reads the prompts.
    """
    pairs = zip(messages, previous, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    costs = [
        budget.message_overhead
        + message_tokens(message, counter=counter, media_tokens=budget.media_tokens)
        for message in messages
    ]
    begun = 0
    if same < min(len(messages), len(previous)):
        begun = counter.count(_common_text(messages[same], previous[same]))
    return SharedPrefix(
        message_count=same, token_count=sum(costs[:same]) + begun, prompt_tokens=sum(costs)
    )


def _common_text(first: ProviderMessage, second: ProviderMessage) -> str:
    one, other = text_of(first) or "", text_of(second) or ""
    if role_of(first) != role_of(second):
        return ""
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    # A word that goes on, and signs that others may follow, are perhaps other tokens in the whole.
    begun = _BEGUN.match(one[:same][::-1])
    return one[: same - begun.end()] if begun else one[:same]
