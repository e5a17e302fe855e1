"""Trials of conditions."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lorewell.engine.conditions.trial import try_condition as try_out
from lorewell.http.calls import OK, Reading, answer
from lorewell.http.limits import TRIAL
from lorewell.http.openapi import documented, json_body
from lorewell.model import ConditionTrial, ConditionTried

TAG = "conditions"
_EXAMPLE = {"text": "tb.力量 > 10 and not tb.met = true", "table": {"力量": 15}}

router = APIRouter()


@router.post(
    "/v1/conditions/try",
    **documented(gives={OK: ConditionTried}, takes=json_body(ConditionTrial, _EXAMPLE, TRIAL)),
)
async def try_condition(call: Reading) -> Response:
    """Evaluate a condition for these values, part by part, or return what is wrong with it."""
    trial = await call.body(ConditionTrial)
    return answer(await call.compute(lambda: try_out(trial)))
