"""The tokens of a whole prompt, and how many of them a provider may have cached.

Source: docs/rules/host.md §9.

A message costs the tokens of its text. In a list of parts, each text costs its tokens and any other
part a fixed number, since the cost of a picture does not follow from its bytes. All members except
role and content (a name, tool calls, …) count as written: strings as they are, others as compact
JSON.
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

_UNFINISHED = re.compile(r"[^\W_]*[\W_]*")  # in reversed text: a word, and punctuation before it
_NOT_COUNTED = frozenset({"role", "content"})


def message_tokens(
    message: ProviderMessage, *, counter: TokenCounter, media_tokens: int = 1_000
) -> int:
    """Return the tokens of a message, without the overhead of every message."""
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
    """Return the token figures of a prompt.

    Args:
        messages: of the prompt, placed and merged.
        draft: the draft they were made from.
        budget: overheads, tools and reserved output.
        counter: counts tokens as the model does that reads the prompt.

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
    """Raise ContextOverflowError, with the figures, if the prompt exceeds the context window.

    Nothing is trimmed to make it fit. A prompt of exactly the window's size fits.

    Source: docs/rules/host.md §9.
    """
    window = figures.window_tokens
    if window is not None and figures.needed_tokens > window:
        needed = figures.needed_tokens
        message = f"The prompt needs {needed} tokens, but the model's window has {window}."
        raise ContextOverflowError(message, **asdict(figures))


def shared_prefix(
    messages: Sequence[ProviderMessage],
    previous: Sequence[ProviderMessage],
    budget: PromptBudget,
    *,
    counter: TokenCounter,
) -> SharedPrefix:
    """Return the size of the prefix that a prompt shares with the one of the previous turn.

    In the first message that differs, the common start of its text counts up to the end of the
    last whole word, since only these tokens are certainly the same.

    Args:
        messages: of this turn, as sent.
        previous: of the previous turn, as sent.
        budget: overheads per message and media part.
        counter: counts tokens as the model does that reads the prompts.
    """
    pairs = zip(messages, previous, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    costs = [
        budget.message_overhead
        + message_tokens(message, counter=counter, media_tokens=budget.media_tokens)
        for message in messages
    ]
    partial = 0
    if same < min(len(messages), len(previous)):
        partial = counter.count(_common_text(messages[same], previous[same]))
    return SharedPrefix(
        message_count=same, token_count=sum(costs[:same]) + partial, prompt_tokens=sum(costs)
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
    # An unfinished word, or punctuation that may go on, can be tokenized differently in the whole.
    partial = _UNFINISHED.match(one[:same][::-1])
    return one[: same - partial.end()] if partial else one[:same]
