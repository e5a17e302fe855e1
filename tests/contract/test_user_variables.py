"""Global variables of users: stored whole, by tenant and user, and changed by concurrent turns."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from contract.harness import Harness
from contract.rows import at
from lorewell.app.ports import Transaction
from lorewell.app.sillytavern.user_variables import UserTurn, UserVariables
from lorewell.model.macro_values import MAX_VARIABLES

ANN = b"\x00ann"


def found(db: Harness, owner: bytes = ANN, tenant: str = "a") -> UserVariables:
    return db.read(lambda tx: UserVariables.find(tx, tenant, owner))


class Turn:
    """A turn that read the variables, and may write them later."""

    def __init__(
        self, db: Harness, name: str, owner: bytes = ANN, **given: Mapping[str, str | float]
    ) -> None:
        self.db, stored = db, found(db, owner)
        begun = given.get("begun", stored.at(name))
        self.begun = dict(begun)
        self.turn = UserTurn(owner, name, begun, "begun" in given, name == stored.turn)

    def end(self, when: int = 0, tenant: str = "a", **variables: str | float) -> None:
        self.db.write(lambda tx: self.turn.keep(tx, tenant, variables, at(when), most=2))


def test_variables_come_back_by_tenant_and_user(db: Harness) -> None:
    body = '{"after": {"ключ": "值 🌊"}}'.encode()
    db.write(lambda tx: tx.put_variables("a", ANN, body, at(0)))

    def look(tx: Transaction, tenant: str, owner: bytes) -> bytes | None:
        return tx.find_variables(tenant, owner, lock=True)

    assert db.write(lambda tx: look(tx, "a", ANN)) == body
    for tenant, owner in (("a", b"\x00bo"), ("a", b""), ("b", ANN)):
        assert db.write(lambda tx, t=tenant, o=owner: look(tx, t, o)) is None
    db.write(lambda tx: tx.put_variables("a", ANN, b"{}", at(1)))
    assert db.read(lambda tx: tx.find_variables("a", ANN)) == b"{}"
    db.write(lambda tx: tx.put_variables("a", ANN, None, at(2)))
    assert db.read(lambda tx: tx.find_variables("a", ANN)) is None
    db.write(lambda tx: tx.put_variables("a", ANN, None, at(2)))


def test_a_repeated_turn_starts_as_the_first_time(db: Harness) -> None:
    Turn(db, "c/1").end(n=1)
    Turn(db, "c/2").end(n=2)
    for _ in range(2):
        again = Turn(db, "c/2")
        assert again.begun == {"n": 1}
        again.end(n=2)
    assert found(db).after == {"n": 2}
    Turn(db, "c/2").end(n=1)  # a swipe that changes nothing takes back what the first one did
    assert found(db).after == {"n": 1}
    assert Turn(db, "c/3").begun == {"n": 1}


def test_turns_at_the_same_time_keep_the_changes_of_each_other(db: Harness) -> None:
    Turn(db, "c/1").end(n=1, gone="x", kept="y")
    one, other = Turn(db, "c/2"), Turn(db, "d/1")
    one.end(n=2, kept="y")
    other.end(n=1, gone="x", kept="z", new="灯")
    assert found(db).after == {"n": 2, "kept": "z", "new": "灯"}


def test_given_variables_replace_the_stored_ones(db: Harness) -> None:
    Turn(db, "c/1").end(n=1)
    Turn(db, "c/2", begun={"m": 5}).end(m=5)
    assert found(db).after == {"m": 5}
    Turn(db, "c/3", begun={}).end()
    assert db.read(lambda tx: tx.find_variables("a", ANN)) is None


def test_what_turns_change_together_stays_bounded(db: Harness) -> None:
    half = MAX_VARIABLES // 2 + 1
    one, other = Turn(db, "c/1"), Turn(db, "d/1")
    one.end(**{f"a{n}": n for n in range(half)})
    other.end(**{f"b{n}": n for n in range(half)})
    assert set(found(db).after) == {f"b{n}" for n in range(half)}


@pytest.mark.parametrize("name", ["c/1", "c/2"])
def test_a_turn_that_changes_nothing_writes_nothing(db: Harness, name: str) -> None:
    Turn(db, "c/1").end(n=1)
    Turn(db, name).end(n=1)
    assert found(db) == UserVariables(turn="c/1", before={}, after={"n": 1})


def test_of_too_many_users_those_that_changed_longest_ago_go(db: Harness) -> None:
    bo, cy = b"\x00bo", "雨".encode()
    Turn(db, "c/1", bo).end(when=0, tenant="b", n=9)
    Turn(db, "c/1", ANN).end(when=0, n=1)
    Turn(db, "d/1", bo).end(when=1, n=1)
    Turn(db, "c/2", ANN).end(when=2, n=2)  # a change of a known user drops nobody
    assert [found(db, owner).after for owner in (ANN, bo)] == [{"n": 2}, {"n": 1}]
    Turn(db, "e/1", cy).end(when=3, n=1)
    assert [found(db, owner).after for owner in (ANN, bo, cy)] == [{"n": 2}, {}, {"n": 1}]
    assert found(db, bo, "b").after == {"n": 9}


def test_a_lower_limit_drops_all_that_are_too_many(db: Harness) -> None:
    names = [bytes([number]) for number in range(5)]
    for when, name in enumerate(names):
        db.write(lambda tx, n=name, when=when: tx.put_variables("a", n, b"{}", at(when)))
    db.write(lambda tx: tx.drop_old_variables("a", most=1))
    kept = [name for name in names if db.read(lambda tx, n=name: tx.find_variables("a", n))]
    assert kept == names[-1:]
