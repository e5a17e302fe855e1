"""How a host uses books in its turns: the block `worldbook` of its configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from lorewell.model.access import TenantId
from lorewell.model.activate import Count
from lorewell.model.base import Contract
from lorewell.model.select import Strategy
from lorewell.model.text import Flag, Integer, Text


class WorldbookConfig(Contract):
    """The block `worldbook`; in JSON its members are written in camel case.

    Attributes:
        tenant_id: whose books.
        strategy: of selections; the service's own default is another one.
        token_budget: of the lore, a part of the window.
        service_url: of the service, where it is asked over HTTP; None is the usual address.
        api_key: for the service, if it wants one.
        timeout_ms: for each call of the service.
        context_window: tokens that the model takes, its answer included; None checks nothing.
        reserved_output: tokens kept free for the answer.
        message_overhead: tokens that each message costs beside its texts.
        merge_adjacent: join neighbouring messages of one role.
        stable_prefix: keep the beginning of the prompt the same from turn to turn.
        trace_content: put the texts of the lore into traces.

    Source: docs/rules/host.md §2.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    tenant_id: TenantId
    strategy: Strategy = "hybrid"
    token_budget: Annotated[Integer, Field(ge=0, le=32_000)] = 2_400
    service_url: Annotated[Text, Field(min_length=1)] | None = None
    api_key: Annotated[Annotated[Text, Field(min_length=1)] | None, Field(repr=False)] = None
    timeout_ms: Annotated[Integer, Field(ge=1, le=600_000)] = 10_000
    context_window: Count | None = None
    reserved_output: Count = 0
    message_overhead: Count = 4
    merge_adjacent: Flag = True
    stable_prefix: Flag = False
    trace_content: Flag = False
