"""Whole chats on two sides, and under other token budgets."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.app.replays import compare_replays as compare, plan_replay as plan
from lorewell.http.calls import OK, Reading, answer_encoded
from lorewell.http.examples import REPLAY_DIFF, REPLAY_PLAN
from lorewell.http.limits import BOOKS
from lorewell.http.openapi import documented, json_body
from lorewell.http.replay_answers import REPLAY_PROBLEMS
from lorewell.model.chat_replay import BudgetPlan, ReplayDiff
from lorewell.model.replay_request import ReplayDiffRequest, ReplayPlanRequest

TAG = "replay"

router = APIRouter()


@router.post(
    "/v1/replay/diff",
    **documented(
        *REPLAY_PROBLEMS,
        gives={OK: ReplayDiff},
        takes=json_body(ReplayDiffRequest, REPLAY_DIFF, BOOKS),
    ),
)
async def compare_replays(call: Reading) -> Response:
    """Run a chat on two sides; return which turns and entries differ."""
    request = await call.body(ReplayDiffRequest)
    found = await compare(call.services, call.tenant_id, request)
    return await answer_encoded(call, found)


@router.post(
    "/v1/replay/plan",
    **documented(
        *REPLAY_PROBLEMS,
        gives={OK: BudgetPlan},
        takes=json_body(ReplayPlanRequest, REPLAY_PLAN, BOOKS),
    ),
)
async def plan_replay(call: Reading) -> Response:
    """Return what each entry costs over a chat, and what other token budgets would change."""
    request = await call.body(ReplayPlanRequest)
    found = await plan(call.services, call.tenant_id, request)
    return await answer_encoded(call, found)
