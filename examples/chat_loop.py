"""A chat with lore from books: `python chat_loop.py harbour.json`.

To use a real model: OpenAiChat(UpstreamOptions(url="http://127.0.0.1:11434/v1", model="…")).
"""

import asyncio
import sys

from lorewell.host import DraftMessage
from lorewell.turn import FileLore, TurnHost, TurnInput, WorldbookConfig
from lorewell.upstreams import ScriptedModel


async def chat(*books: str) -> None:
    """Answer every input line, and print the injected entries and their reasons."""
    host = TurnHost(WorldbookConfig(tenant_id="me", context_window=8192), FileLore(books))
    model, history = ScriptedModel(), []
    while line := await asyncio.to_thread(sys.stdin.readline):
        message = {"role": "user", "content": line.strip()}
        draft = [*history, DraftMessage(kind="input", message=message)]
        ids = {"user_id": "me", "conversation_id": "1", "prompt_id": "chat"}
        given = TurnInput(request_id=f"turn {len(history)}", draft=draft, **ids)
        async with host.begin(given) as turn:
            reply = await turn.run(model)
            prepared = await turn.prepare()  # cached: nothing is computed twice
        print(reply.content)
        for each in prepared.prompt.placements:
            print(f"  {each.id.rpartition(':')[2]}: {each.reason}")
        history += [DraftMessage(kind="chat", message=each) for each in (message, reply.message)]


if __name__ == "__main__":
    asyncio.run(chat(*sys.argv[1:]))
