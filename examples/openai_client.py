"""A chat through Lorewell's gateway with OpenAI's own package: only the base URL differs.

lorewell gateway --url http://127.0.0.1:11434/v1 --model qwen3 --tenant sample
pip install openai
python examples/openai_client.py sample "What sank out at the wreck?"
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8876/gateway/v1")


def main(prompt_id: str, text: str) -> None:
    """Print the answer as it arrives, then the injected entries and their reasons."""
    # With LOREWELL_AUTH=true this must be an API key of Lorewell; otherwise it is ignored.
    client = OpenAI(base_url=BASE_URL, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    answer = client.chat.completions.with_raw_response.create(
        model=prompt_id,  # the prompt whose books are used
        messages=[{"role": "user", "content": text}],
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
