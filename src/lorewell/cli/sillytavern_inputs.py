"""The options and files of `lorewell sillytavern run`, as a library and a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from lorewell.engine.sillytavern.sources import Library
from lorewell.errors import ValidationFailedError
from lorewell.formats import load_world, open_book
from lorewell.formats.card_texts import CardTexts, load_card_texts
from lorewell.formats.chat_file import ChatFile, ChatMessage
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.formats.json_text import storable
from lorewell.formats.plain_chat import load_any_chat
from lorewell.model.activate import BookSource, SillyTavernRequest, SillyTavernSettings
from lorewell.model.parse import parse_model

# The member of SillyTavern's settings.json that holds the World Info settings.
_WORLD_INFO = "world_info_settings"
_NO_CHAT = ChatFile(user="", char="", messages=(), hidden=0, timed_state={}, book=None, warnings=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """The options of the command; None where one was not given.

    Attributes:
        books: files, by what they are bound to.
        card: a character card; its book, its texts and its file name are used.
        chat: a chat: SillyTavern's `.jsonl`, or messages as JSON.
        query: a message of the user after those of the chat.
        settings: a JSON file with settings; `overrides` replace them.
        overrides: settings by their names in the contract.
        user, char: names that replace those of the chat.
        persona: the description of the user's persona.
        context_tokens: size of the context.
        seed: seeds the probability rolls.
        trigger: generation type.
        fresh: whether to ignore the timed state of the chat file.
    """

    books: Mapping[BookSource, Sequence[Path]]
    card: Path | None
    chat: Path | None
    query: str | None = None
    settings: Path | None
    overrides: Mapping[str, object | None] = field(default_factory=dict)
    user: str | None
    char: str | None
    persona: str | None
    context_tokens: int
    seed: str | None
    trigger: str
    fresh: bool


class LoadedScan(NamedTuple):
    """The inputs of a scan, and the chat file they come from."""

    library: Library
    request: SillyTavernRequest
    chat: ChatFile


def load_scan(options: ScanOptions) -> LoadedScan:
    """Load the library and the request of the options.

    Raises:
        ValidationFailedError: no book or no message was given, or settings or texts break their
            schema.
        ImportInvalidError, FileTooLargeError, OSError: a file can't be used.
    """
    chat = _load_chat(options)
    texts = None if options.card is None else load_card_texts(options.card)
    files = [(source, path) for source, paths in options.books.items() for path in paths]
    books = [load_world(path, source=source) for source, path in files]
    if options.card is not None and open_book(options.card).holds_book:
        books.append(load_world(options.card, source="character"))
    if not books:
        raise ValidationFailedError(
            "No book given: pass --book, or --card with a card that holds a lorebook."
        )
    return LoadedScan(Library(books), _request(options, chat, texts), chat)


def _load_chat(options: ScanOptions) -> ChatFile:
    """Return the chat with the query as its last message."""
    if options.chat is None and options.query is None:
        raise ValidationFailedError("No message given: pass --chat, --query or both.")
    chat = _NO_CHAT if options.chat is None else load_any_chat(options.chat)
    if options.query is None:
        return chat
    name = options.user or chat.user
    said = ChatMessage(name=name, content=options.query, is_user=True, line=0)
    return replace(chat, messages=(*chat.messages, said))


def _request(options: ScanOptions, chat: ChatFile, card: CardTexts | None) -> SillyTavernRequest:
    names = {
        "user": options.user or chat.user,
        "char": options.char or (card.name if card else "") or chat.char,
        "persona": options.persona or "",
    }
    document: dict[str, object] = {
        "settings": _settings(options),
        "chat": [{"name": each.name or None, "content": each.content} for each in chat.messages],
        "macros": {**names, **_macro_texts(card)},
        "scan_texts": {"persona_description": names["persona"], **_scan_texts(card)},
        "character": options.card and {"avatar": storable(options.card.name)},
        "trigger": options.trigger,
        "context_tokens": options.context_tokens,
        "timed_state": {} if options.fresh else chat.timed_state,
    }
    if options.seed is not None:
        document["seed"] = options.seed
    try:
        return parse_model(SillyTavernRequest, document)
    except ValidationFailedError as error:
        name = "The query" if options.chat is None else options.chat.name
        raise naming(error, f"{name} can't be scanned with these options") from error


def _macro_texts(card: CardTexts | None) -> Mapping[str, str]:
    if card is None:
        return {}
    return {
        "description": card.description,
        "personality": card.personality,
        "scenario": card.scenario,
    }


def _scan_texts(card: CardTexts | None) -> Mapping[str, str]:
    if card is None:
        return {}
    return {
        "character_description": card.description,
        "character_personality": card.personality,
        "character_depth_prompt": card.depth_prompt,
        "scenario": card.scenario,
        "creator_notes": card.creator_notes,
    }


def _settings(options: ScanOptions) -> object:
    """Return the settings of the file, overridden by the options."""
    document = {} if options.settings is None else load_json(options.settings)
    if isinstance(document, dict):
        world_info = document.get(_WORLD_INFO)
        if isinstance(world_info, dict):  # SillyTavern's own file, which holds much more
            known = SillyTavernSettings.model_fields
            document = {name: value for name, value in world_info.items() if name in known}
        given = {name: value for name, value in options.overrides.items() if value is not None}
        document = {**document, **given}
    return document
