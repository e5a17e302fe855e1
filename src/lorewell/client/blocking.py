"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, Unpack

import httpx

from lorewell.client.attempts import Retry
from lorewell.client.calls import DEFAULT_URL, Answer, ClientCall, Session, TenantOptions
from lorewell.client.connecting import DEFAULT_TIMEOUT_S, Connection, request_of, streaming
from lorewell.client.live import LiveWatch
from lorewell.client.routes import books, service, turns
from lorewell.model.live import LiveFrame

Given = ParamSpec("Given")


def _method(
    route: Callable[Concatenate[Session, Given], ClientCall[Answer]],
) -> Callable[Concatenate[LorewellClient, Given], Answer]:
    """Return a method that sends the call that a route makes of its arguments."""

    @wraps(route)
    def method(self: LorewellClient, /, *args: Given.args, **options: Given.kwargs) -> Answer:
        return self.send(route(self.session, *args, **options))

    return method


class LorewellClient:
    """A client that blocks until the answer is there. Threads may share one.

    Every method takes `request_id` and `timeout_s` as keywords. Methods for one tenant's books also
    take `tenant_id`, and methods that store something once take `idempotency_key`. Each raises the
    class of `lorewell.errors` that the service answered, or an UnavailableError with the code
    `service_unreachable` if no answer came.

    The client repeats reads, and writes with an idempotency key, after a broken connection, a 502
    or a 503. It repeats other calls only if no byte of them was sent.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        tenant_id: str | None = None,
        api_key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Create a client without connecting.

        Args:
            base_url: the address of the service; it may hold a user and a password.
            tenant_id: the tenant of calls that do not name one.
            api_key: sent as `Authorization: Bearer <key>`, in place of the URL's password.
            timeout_s: seconds for each step of an exchange: connect, send, read.
            retry: how often to try, and the pauses between; three attempts if not given.
            transport: sends requests in place of the network.

        Raises:
            ValidationFailedError: the address or the key is invalid.
        """
        self._connection = Connection.to(
            base_url, tenant_id=tenant_id, api_key=api_key, retry=retry
        )
        self._http = httpx.Client(
            base_url=self._connection.url,
            headers=self._connection.headers,
            timeout=timeout_s,
            trust_env=self._connection.trust_env,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    @property
    def session(self) -> Session:
        """The values that all calls share."""
        return self._connection.session

    def send(self, call: ClientCall[Answer]) -> Answer:
        """Send a call, again if it failed and may be repeated, and return the answer.

        Raises:
            LorewellError: the error that the service answered, or the service is unreachable.
        """
        attempts = self._connection.attempts(call)
        while True:
            try:
                response = self._http.send(request_of(self._http, call))
            except httpx.RequestError as error:
                pause_s = attempts.failed(error)
            else:
                if response.is_success:
                    return attempts.answered(response)
                pause_s = attempts.refused(response)
            time.sleep(pause_s)

    create_book = _method(books.create_book)
    list_books = _method(books.list_books)
    get_book = _method(books.get_book)
    export_book = _method(books.export_book)
    delete_book = _method(books.delete_book)
    restore_book = _method(books.restore_book)
    list_revisions = _method(books.list_revisions)
    publish_revision = _method(books.publish_revision)
    compare_revisions = _method(books.compare_revisions)
    restore_revision = _method(books.restore_revision)
    import_books = _method(books.import_books)
    preview_import = _method(books.preview_import)
    import_files = _method(books.import_files)
    build_index = _method(books.build_index)
    get_index = _method(books.get_index)
    list_indexes = _method(books.list_indexes)
    select_for_turn = _method(turns.select_for_turn)
    preview_for_turn = _method(turns.preview_for_turn)
    explain_context = _method(turns.explain_context)
    get_selection = _method(turns.get_selection)
    get_activation = _method(turns.get_activation)
    activate_for_turn = _method(turns.activate_for_turn)
    preview_activation = _method(turns.preview_activation)
    explain_activation = _method(turns.explain_activation)
    replay_chat = _method(turns.replay_chat)
    replay_context = _method(turns.replay_context)
    replay_replica = _method(turns.replay_replica)
    compare_replays = _method(turns.compare_replays)
    plan_replay = _method(turns.plan_replay)
    activate_replica = _method(turns.activate_replica)
    get_replica_activation = _method(turns.get_replica_activation)
    preview_replica = _method(turns.preview_replica)
    explain_replica = _method(turns.explain_replica)
    assemble_prompt = _method(turns.assemble_prompt)
    list_conversations = _method(turns.list_conversations)
    get_conversation = _method(turns.get_conversation)
    delete_conversation = _method(turns.delete_conversation)
    count_tokens = _method(turns.count_tokens)
    try_condition = _method(turns.try_condition)
    lint = _method(turns.lint)
    search_books = _method(turns.search_books)
    put_bindings = _method(turns.put_bindings)
    get_bindings = _method(turns.get_bindings)
    resolve_bindings = _method(turns.resolve_bindings)
    list_prompts = _method(turns.list_prompts)
    list_book_prompts = _method(turns.list_book_prompts)
    list_tenants = _method(service.list_tenants)
    list_all_books = _method(service.list_all_books)
    get_any_book = _method(service.get_any_book)
    list_keys = _method(service.list_keys)
    create_key = _method(service.create_key)
    revoke_key = _method(service.revoke_key)
    check_health = _method(service.check_health)
    check_readiness = _method(service.check_readiness)
    get_metrics = _method(service.get_metrics)

    def live(
        self,
        prompt_id: str,
        *,
        last_event_id: int | None = None,
        **options: Unpack[TenantOptions],
    ) -> Iterator[LiveFrame]:
        """Yield the live events of a prompt, without end (docs/live.md).

        When a stream breaks off, the client connects again and first gets the events that it
        missed. So a frame `ready` may come more than once.

        Args:
            prompt_id: the prompt to watch.
            last_event_id: the last event that was seen; later ones come first.
            options: the options of every method.

        Raises:
            LorewellError: the error that the service answered, or the service stays unreachable.
        """
        watch = LiveWatch(self._connection, prompt_id, last_event_id, options)
        while True:
            try:
                response = self._http.send(streaming(self._http, watch.call), stream=True)
                with closing(response):
                    if response.is_success:
                        for piece in response.iter_bytes():
                            yield from watch.feed(piece)
                        pause_s = watch.broke_off(None)
                    else:
                        response.read()
                        pause_s = watch.refused(response)
            except httpx.RequestError as error:
                pause_s = watch.broke_off(error)
            time.sleep(pause_s)
