"""A process of its own that uses a store: `writer.py migrate URL`, `writer.py write URL TENANT N`.

It prints a line for each acknowledged write.
"""

import asyncio
import sys

from contract.rows import add_book
from lorewell.store import open_store


async def migrate(url: str) -> None:
    store = open_store(url)
    try:
        await store.migrate()
        print(await store.check(), flush=True)
    finally:
        await store.close()


async def write(url: str, tenant_id: str, count: int) -> None:
    store = open_store(url)
    try:
        for number in range(count):
            content = f"{tenant_id} {number} ".encode() * 500
            await store.write(add_book(number, tenant_id, content))
            print(number, flush=True)
    finally:
        await store.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["migrate", address]:
            asyncio.run(migrate(address))
        case ["write", address, tenant, total]:
            asyncio.run(write(address, tenant, int(total)))
        case _:
            sys.exit(2)
