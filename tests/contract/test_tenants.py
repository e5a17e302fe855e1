"""Two tenants with the same ids never see each other's rows."""

from contract.harness import Harness
from contract.rows import START, at, binding, digest, head, kept, revision, uuid
from lorewell.app.ports import Transaction
from lorewell.app.rows import StoredBindings, StoredResult

BODIES = {"a": b"of a", "b": b"of b"}


def fill(tx: Transaction) -> None:
    for tenant_id, body in BODIES.items():
        tx.insert_book(head(1, tenant_id, name=f"Of {tenant_id}"))
        tx.insert_revision(revision(1, 1, tenant_id, b"same", name=tenant_id), body)
        tx.put_file(tenant_id, "f", uuid(1))
        tx.claim(tenant_id, "key", tenant_id)
        tx.settle(tenant_id, "key", status=200, response=body)
        tx.keep_request(kept("s", tenant_id, body=body))
    tx.insert_book(head(2, "b"))
    tx.insert_revision(revision(2, 7, "b", b"only of b"), b"only of b")
    tx.put_file("b", "g", uuid(2))
    tx.put_file("b", "f", uuid(2))
    tx.keep_request(kept("t", "b"))
    tx.put_bindings("b", "p", StoredBindings(policy="replica", bindings=(binding(1),)))


def test_reads_show_one_tenant(db: Harness) -> None:
    db.write(fill)

    def look(tx: Transaction) -> None:
        everything = {
            "limit": 9,
            "after": None,
            "name_contains": None,
            "include_deleted": True,
        }
        own = head(1, "a", name="Of a")
        assert tx.find_head("a", uuid(1)) == own
        assert tx.find_head("a", uuid(2)) is None
        assert tx.find_heads("a", [uuid(1), uuid(2)]) == {uuid(1): own}
        assert tx.list_heads("a", **everything) == [own]
        assert len(tx.list_heads(None, **everything)) == 3
        assert tx.list_heads("c", **everything) == []
        assert tx.list_heads("a", **(everything | {"name_contains": "of b"})) == []
        assert tx.list_heads("a", **(everything | {"after": (START, uuid(1), "a")})) == []
        found = tx.find_revision("a", uuid(1), 1)
        assert found is not None
        assert found.name == "a"
        assert tx.find_revision("a", uuid(2), 7) is None
        assert tx.list_revisions("a", uuid(2), limit=9, before=None) == []
        assert tx.list_revisions("a", uuid(1), limit=9, before=9) == [found]
        assert {
            tenant_id: tx.get_content(tenant_id, digest(b"same")) for tenant_id in BODIES
        } == BODIES
        assert tx.find_file("a", "f") == uuid(1)
        assert tx.find_file("a", "g") is None
        assert tx.find_bindings("a", "p") is None
        assert not tx.list_prompts("a", limit=9, book_id=uuid(1))
        assert tx.list_prompts("b", limit=9, book_id=uuid(1))
        assert tx.find_request("a", "s") == kept("s", "a", body=b"of a")
        assert tx.find_request("a", "t") is None

    db.read(look)


def test_writes_touch_one_tenant(db: Harness) -> None:
    db.write(fill)

    def change(tx: Transaction) -> None:
        tx.advance_book("a", uuid(1), revision=2, name="New", updated_at=at(1))
        tx.set_deleted("a", uuid(1), deleted_at=at(2), updated_at=at(2))
        tx.insert_revision(revision(1, 2, "a", b"new"), b"new")
        tx.put_file("a", "f", uuid(1))
        tx.put_bindings("a", "p", StoredBindings(policy="native", bindings=()))
        tx.keep_request(kept("s", "a", body=b"new"))
        assert tx.claim("a", "key", "?") == StoredResult(
            request_hash="a", status=200, response=b"of a"
        )

    db.write(change)

    def look(tx: Transaction) -> None:
        assert tx.find_head("b", uuid(1)) == head(1, "b", name="Of b")
        assert tx.find_revision("b", uuid(1), 2) is None
        assert tx.find_file("b", "f") == uuid(2)
        assert tx.find_bindings("b", "p") == StoredBindings(
            policy="replica", bindings=(binding(1),)
        )
        assert tx.find_request("b", "s") == kept("s", "b", body=b"of b")

    db.read(look)
    remembered = db.write(lambda tx: tx.claim("b", "key", "?"))
    assert remembered == StoredResult(request_hash="b", status=200, response=b"of b")
