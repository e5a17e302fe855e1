"""A chat through Lorewell's gateway with OpenAI's own package: only the base URL changes.

Start `python3 dev.py run gateway` as README.md shows, then, in another terminal:

.venv/bin/pip install openai
.venv/bin/python examples/openai_client.py sample "What sank out at the wreck?"
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8876/gateway/v1")


def main(prompt_id: str, said: str) -> None:
    """Print the answer as it arrives, and how many entries went into the prompt."""
    # With LOREWELL_AUTH=true this is a Lorewell key; otherwise it is ignored.
    client = OpenAI(base_url=BASE_URL, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    answer = client.chat.completions.with_raw_response.create(
        model=prompt_id,  # the prompt whose books are used
        messages=[{"role": "user", "content": said}],
        stream=True,
    )
    for chunk in answer.parse():
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()
    print("Entries:", answer.headers["X-Lorewell-Entries"])
    print("Why:", answer.headers.get("X-Lorewell-Ledger", "no books are bound to this prompt"))


if __name__ == "__main__":
    main(*sys.argv[1:3])
