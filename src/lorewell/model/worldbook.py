"""The block `worldbook` of a host's configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from lorewell.model.access import TenantId
from lorewell.model.base import Contract
from lorewell.model.prompt_settings import PROMPT_STRATEGY, PROMPT_TOKEN_BUDGET
from lorewell.model.select import Strategy
from lorewell.model.text import Count, Flag, Integer, Text


class WorldbookConfig(Contract):
    """The block `worldbook`; in JSON its members are in camel case.

    Attributes:
        tenant_id: the tenant that owns the books.
        strategy: strategy of selections; the default differs from that of a SelectRequest.
        token_budget: most tokens of the lore, a share of the context window.
        service_url: URL of the service; null means the default address.
        api_key: API key for the service, if it needs one.
        timeout_ms: time limit of each call to the service.
        context_window: the model's context window in tokens, the reply included; null checks
            nothing.
        reserved_output: tokens reserved for the reply.
        message_overhead: tokens that each message costs on top of its texts.
        merge_adjacent: merge adjacent messages of the same role.
        stable_prefix: keep the beginning of the prompt the same from turn to turn.
        trace_content: include the texts of the lore in traces.

    Source: docs/rules/host.md §2.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    tenant_id: TenantId
    strategy: Strategy = PROMPT_STRATEGY
    token_budget: Annotated[Integer, Field(ge=0, le=32_000)] = PROMPT_TOKEN_BUDGET
    service_url: Annotated[Text, Field(min_length=1)] | None = None
    api_key: Annotated[Annotated[Text, Field(min_length=1)] | None, Field(repr=False)] = None
    timeout_ms: Annotated[Integer, Field(ge=1, le=600_000)] = 10_000
    context_window: Count | None = None
    reserved_output: Count = 0
    message_overhead: Count = 4
    merge_adjacent: Flag = True
    stable_prefix: Flag = False
    trace_content: Flag = False
