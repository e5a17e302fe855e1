"""Macros of the chat and of its clock (docs/rules/sillytavern-macros.md §5, §6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lorewell.engine.sillytavern.macros.dates import INVALID, ReadDate, read_date, read_sent
from lorewell.engine.sillytavern.macros.moments import MINUTE, LocalTime, at_offset, in_words
from lorewell.engine.sillytavern.macros.state import MacroFailedError, MacroState, Miss
from lorewell.model.macro_values import ChatRole, MacroMessage, Moment

_MESSAGES_PER_STEP: Final = 10
_OFFSET = re.compile(r"UTC([+-][0-9]{1,6})")


def _messages(state: MacroState) -> tuple[MacroMessage, ...]:
    return state.given("messages", state.values.messages, ())


def _settled(state: MacroState) -> Iterator[tuple[int, MacroMessage]]:
    """Yield the messages, newest first, without those whose next swipe is being written."""
    messages = _messages(state)
    state.steps.spend("macros", len(messages) // _MESSAGES_PER_STEP)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        is_swiped = bool(message.swipes) and (message.swipe or 0) >= (message.swipes or 0)
        if not is_swiped:
            yield index, message


def last_message(state: MacroState) -> str:
    """Return the text of the newest message."""
    return next((message.content for _, message in _settled(state)), "")


def last_message_id(state: MacroState) -> str:
    """Return the index of the newest message."""
    return next((str(index) for index, _ in _settled(state)), "")


def last_of(state: MacroState, role: ChatRole) -> str:
    """Return the text of the newest message of one side."""
    return next((message.content for _, message in _settled(state) if message.role == role), "")


def last_swipe_id(state: MacroState) -> str:
    """Return the number of swipes of the newest message."""
    messages = _messages(state)
    return str(messages[-1].swipes) if messages and messages[-1].swipes else ""


def current_swipe_id(state: MacroState) -> str:
    """Return the number of the shown swipe of the newest message, from 1."""
    messages = _messages(state)
    swipe = messages[-1].swipe if messages and messages[-1].swipes else None
    return "" if swipe is None else str(swipe + 1)


def all_chat_range(state: MacroState) -> str:
    """Return the range of all indexes of messages."""
    messages = _messages(state)
    return f"0-{len(messages) - 1}" if messages else ""


def _moment(state: MacroState) -> Moment:
    if state.moment is None:
        state.misses.append(Miss("time_missing", "time"))
        raise MacroFailedError
    return state.moment


def local_time(state: MacroState, pattern: str) -> str:
    """Return the local time in a format of moment.js."""
    return LocalTime(_moment(state)).format(pattern)


def time_at(state: MacroState, offset: str) -> str:
    """Return the time at an offset such as `UTC+2`; any other text stands for local time."""
    found = _OFFSET.fullmatch(offset)
    moment = _moment(state)
    if found is not None:
        moment = at_offset(moment, int(found[1]))
    return LocalTime(moment).format("h:mm A")


def _exact(state: MacroState, date: ReadDate) -> int:
    """Return the milliseconds of a date in UTC; a local date needs the clock's zone."""
    offset = _moment(state).offset_minutes if date.is_local else 0
    return date.milliseconds - offset * MINUTE


def time_difference(state: MacroState, one: str, other: str) -> str:
    """Return in words how far the first date is from the second."""
    dates = read_date(one), read_date(other)
    if dates[0] is None or dates[1] is None:
        return INVALID
    if dates[0].is_local == dates[1].is_local:
        span = dates[0].milliseconds - dates[1].milliseconds
    else:
        span = _exact(state, dates[0]) - _exact(state, dates[1])
    words = in_words(span)
    return f"in {words}" if span > 0 else f"{words} ago"


def idle_duration(state: MacroState) -> str:
    """Return in words how long ago the user wrote, the newest message left out."""
    moment = _moment(state)
    messages = _messages(state)
    state.steps.spend("macros", len(messages) // _MESSAGES_PER_STEP)
    heard = (message for message in reversed(messages) if message.role != "system")
    next(heard, None)
    sent = next((message.sent for message in heard if message.role == "user"), None)
    if sent is None:
        return "just now"
    date = read_sent(sent)
    if date is None:
        return INVALID
    return in_words(moment.milliseconds - _exact(state, date))
