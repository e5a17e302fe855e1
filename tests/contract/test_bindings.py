"""Bindings of prompts: replaced as a whole, kept in order."""

import pytest

from contract.harness import Harness
from contract.rows import add_book, binding, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import StoredBindings
from lorewell.errors import LorewellError
from lorewell.model.parse import parse_model
from lorewell.model.prompt_settings import PromptSettings

PROMPT = "prompt/雾 1"


@pytest.fixture(autouse=True)
def _books(db: Harness) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(1, 21):
            add_book(number)(tx)

    db.write(fill)


def put(db: Harness, stored: StoredBindings, prompt_id: str = PROMPT) -> None:
    db.write(lambda tx: tx.put_bindings("a", prompt_id, stored))


def test_bindings_keep_their_order_and_fields(db: Harness) -> None:
    stored = StoredBindings(
        policy="sillytavern",
        bindings=(
            binding(3, revision=1, position=-1_000_000, enabled=False),
            binding(1, position=5, source="character"),
            binding(2, revision=4, position=1_000_000, source="persona"),
        ),
    )
    put(db, stored)
    assert db.read(lambda tx: tx.find_bindings("a", PROMPT)) == stored
    assert db.read(lambda tx: tx.find_bindings("a", "other")) is None


def test_settings_keep_which_of_them_were_given(db: Harness) -> None:
    document = {
        "native": {"scan_depth": 4, "recall_floor": None},
        "sillytavern": {"world_info_depth": 9, "vectors": {"messages": 3}},
        "auto_index": False,
    }
    settings = parse_model(PromptSettings, document)
    put(db, StoredBindings(policy="auto", bindings=(), settings=settings))
    found = db.read(lambda tx: tx.find_bindings("a", PROMPT))
    assert found is not None
    assert found.settings.native.given() == {"scan_depth": 4, "recall_floor": None}
    assert found.settings.sillytavern.given() == settings.sillytavern.given()
    assert found.settings.model_dump() == settings.model_dump()
    put(db, StoredBindings(policy="auto", bindings=()))
    found = db.read(lambda tx: tx.find_bindings("a", PROMPT))
    assert found is not None
    assert found.settings.model_dump() == {}


def test_bindings_are_replaced_as_a_whole(db: Harness) -> None:
    put(db, StoredBindings(policy="auto", bindings=tuple(binding(n) for n in range(1, 21))))
    put(db, StoredBindings(policy="auto", bindings=(binding(9),)), "second")
    fewer = StoredBindings(policy="replica", bindings=(binding(20), binding(1)))
    put(db, fewer)
    assert db.read(lambda tx: tx.find_bindings("a", PROMPT)) == fewer
    none = StoredBindings(policy="native", bindings=())
    put(db, none)
    assert db.read(lambda tx: tx.find_bindings("a", PROMPT)) == none
    second = db.read(lambda tx: tx.find_bindings("a", "second"))
    assert second == StoredBindings(policy="auto", bindings=(binding(9),))


def users(db: Harness, number: int) -> list[str]:
    found = db.read(lambda tx: tx.list_prompts("a", limit=9, book_id=uuid(number)))
    return [row.prompt_id for row in found]


def test_book_is_bound_while_an_enabled_binding_names_it(db: Harness) -> None:
    stored = StoredBindings(policy="auto", bindings=(binding(1), binding(2, enabled=False)))
    put(db, stored)
    put(db, StoredBindings(policy="auto", bindings=(binding(2, enabled=False),)), "second")
    assert [users(db, number) for number in (1, 2, 3)] == [[PROMPT], [], []]
    put(db, StoredBindings(policy="auto", bindings=(binding(2),)), "second")
    assert users(db, 2) == ["second"]
    put(db, StoredBindings(policy="auto", bindings=(binding(2), binding(1))), "third")
    assert users(db, 2) == ["second", "third"]
    assert db.read(lambda tx: tx.list_prompts("b", limit=9, book_id=uuid(2))) == []


def test_binding_needs_its_book(db: Harness) -> None:
    before = StoredBindings(policy="auto", bindings=(binding(1),))
    put(db, before)
    with pytest.raises(LorewellError):
        put(db, StoredBindings(policy="native", bindings=(binding(2), binding(99))))
    assert db.read(lambda tx: tx.find_bindings("a", PROMPT)) == before


def test_parallel_puts_leave_one_whole_set(db: Harness) -> None:
    sets = [
        StoredBindings(
            policy="auto", bindings=tuple(binding(1 + (start + i) % 20) for i in range(6))
        )
        for start in range(20)
    ]

    def work(stored: StoredBindings):  # noqa: ANN202
        return lambda tx: tx.put_bindings("a", PROMPT, stored)

    assert db.all(*(db.store.write(work(stored)) for stored in sets)) == [None] * 20
    assert db.read(lambda tx: tx.find_bindings("a", PROMPT)) in sets


def test_prompts_with_enabled_bindings_are_listed_by_name(db: Harness) -> None:
    on = StoredBindings(policy="auto", bindings=(binding(1), binding(2, enabled=False)))
    off = StoredBindings(policy="auto", bindings=(binding(1, enabled=False),))
    for prompt_id in ("雾", "b", "B", "a 1"):
        put(db, on, prompt_id)
    put(db, off, "off")
    put(db, StoredBindings(policy="auto", bindings=()), "empty")
    found = db.read(lambda tx: tx.list_prompts("a", limit=9))
    assert [row.prompt_id for row in found] == ["B", "a 1", "b", "雾"]
    assert {(row.policy, row.book_count) for row in found} == {("auto", 1)}
    rest = db.read(lambda tx: tx.list_prompts("a", limit=2, after="B"))
    assert [row.prompt_id for row in rest] == ["a 1", "b"]
    assert db.read(lambda tx: tx.list_prompts("a", limit=9, after="雾")) == []
    assert list(db.read(lambda tx: tx.list_prompts("other", limit=9))) == []
