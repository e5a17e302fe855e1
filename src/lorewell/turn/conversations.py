"""Conversations: their users, and the prompts they began with (docs/rules/host.md §3)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from lorewell.errors import ConversationMismatchError, IdentityMissingError
from lorewell.formats.writing import write_file
from lorewell.model.text import is_blank
from lorewell.turn.ports import ConversationKey, ConversationRecord, Conversations

_MAX_NAME_CHARS = 200
_PRIVATE = 0o600


async def check_conversation(
    conversations: Conversations, key: ConversationKey, record: ConversationRecord
) -> None:
    """Store the prompt of a new conversation, or check that the conversation keeps its prompt.

    Raises:
        IdentityMissingError: the user, the conversation or the prompt is blank.
        ConversationMismatchError: the conversation began with another prompt.
    """
    required = {
        "user_id": key.user_id,
        "conversation_id": key.conversation_id,
        "prompt_id": record.prompt_id,
    }
    missing = [name for name, value in required.items() if is_blank(value)]
    if missing:
        message = f"The turn needs {', '.join(missing)}."
        raise IdentityMissingError(message, missing=missing)
    began_with = await conversations.note(key, record)
    if began_with != record.prompt_id:
        message = (
            f"The conversation {key.conversation_id!r} began with the prompt {began_with!r}, "
            f"not {record.prompt_id!r}."
        )
        raise ConversationMismatchError(
            message,
            conversation_id=key.conversation_id,
            prompt_id=record.prompt_id,
            began_with=began_with,
        )


def conversation_name(key: ConversationKey) -> str:
    """Return a key as one name, for a service that keeps the conversation's state.

    Different keys have different names. The name includes the tenant, although the service knows
    it, so that services may share the name of a tenant.

    >>> conversation_name(ConversationKey(tenant_id="demo", user_id="a/b", conversation_id="灯 1"))
    'demo:a%2Fb:灯 1'
    """
    parts = (key.tenant_id, key.user_id, key.conversation_id)
    name = ":".join(map(_quoted, parts))
    if len(name) <= _MAX_NAME_CHARS and name.isprintable():
        return name
    return "sha256:" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def _quoted(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F").replace(":", "%3A")


class MemoryConversations:
    """Conversations in the memory of one process."""

    def __init__(self) -> None:
        self._records: dict[ConversationKey, ConversationRecord] = {}

    async def note(self, key: ConversationKey, record: ConversationRecord) -> str:
        """Store the prompt of a new conversation; return the prompt of the conversation."""
        kept = self._records.setdefault(key, record)
        if kept.prompt_id == record.prompt_id:
            self._records[key] = record
        return kept.prompt_id


class FileConversations:
    """Conversations in a folder, one file each. Processes may share it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Use a folder, which the first stored conversation creates."""
        self._folder = Path(folder)

    async def note(self, key: ConversationKey, record: ConversationRecord) -> str:
        """Store the prompt of a new conversation; return the prompt of the conversation.

        Raises:
            OSError: the folder can't be used.
        """
        return await asyncio.to_thread(self._note, key, record)

    def _note(self, key: ConversationKey, record: ConversationRecord) -> str:
        name = conversation_name(key)
        path = self._folder / (hashlib.sha256(name.encode()).hexdigest() + ".json")
        kept = _read(path)
        if kept == record:
            return kept.prompt_id
        if kept is not None and kept.prompt_id != record.prompt_id:
            return kept.prompt_id
        self._folder.mkdir(parents=True, exist_ok=True)
        document = json.dumps(
            {**asdict(key), **asdict(record)}
        )  # ASCII: an id may hold lone surrogates
        try:
            write_file(path, document.encode(), replace=kept is not None, mode=_PRIVATE)
        except FileExistsError:  # another process wrote it first
            kept = _read(path)
            return record.prompt_id if kept is None else kept.prompt_id
        return record.prompt_id


def _read(path: Path) -> ConversationRecord | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return ConversationRecord(prompt_id=document["prompt_id"], scene_id=document["scene_id"])
