"""The place of sent lines in a conversation: by beginnings, by runs, and where it is unknown."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from lorewell.app.sillytavern.places import MAX_PAIRS, pairs_of
from lorewell.host.alignment import (
    ROOT,
    HashedLine,
    Place,
    SentLine,
    align,
    branch_of,
    extend,
    hash_lines,
    is_continued,
    start_over,
)
from lorewell.host.known_lines import MAX_LINES, KnownLines

KEY = b"secret"
TALK = ["m:Hello", "a:Hi", "m:Tea?", "a:Yes", "m:Milk?", "a:No", "m:Sugar?", "a:Two"]
MOST_MS = 20  # ten times what is wanted, for the sake of busy machines


def hashed(*texts: str, key: bytes = KEY) -> list[HashedLine]:
    """Return lines of the form `speaker:text`; the speaker `a` is the user."""
    split = (each.partition(":") for each in texts)
    return hash_lines(key, [SentLine(name, text, name != "a") for name, _, text in split])


def talk(*chats: Sequence[str]) -> KnownLines:
    """Return the lines that are known after these chats, each sent whole."""
    known = KnownLines()
    for chat in chats:
        lines = hashed(*chat)
        known = extend(known, align(known, lines) or start_over(lines), lines)
    return known


def find(known: KnownLines, *texts: str, strict: bool = False) -> Place:
    place = align(known, hashed(*texts), strict=strict)
    assert place is not None
    return place


def test_hashes_depend_on_key_speaker_and_text_but_not_on_blanks_around_it() -> None:
    (line,) = hashed("m:灯塔 🚪")
    assert hashed("m: 灯塔 🚪\n") == [line]
    others = [*hashed("a:灯塔 🚪"), *hashed("m:灯塔"), *hashed("m:灯塔 🚪", key=b"other")]
    assert line.line not in [each.line for each in others]


@pytest.mark.parametrize("first", range(6))
def test_the_last_lines_are_found(first: int) -> None:
    place = find(talk(TALK), *TALK[first:], "m:More?")
    assert (place.first, place.head, place.length) == (first, 0, 9)
    assert place.end == find(talk(TALK), *TALK, "m:More?").end


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(["m:Two"], id="one line"),
        pytest.param(["a:No", "m:More?", "a:More."], id="one known line"),
        pytest.param(["m:New", "a:Newer"], id="nothing known"),
        pytest.param([], id="nothing sent"),
    ],
)
def test_too_little_has_no_place(sent: list[str]) -> None:
    assert align(talk(TALK), hashed(*sent)) is None


def test_two_lines_without_a_reply_have_no_place() -> None:
    known = talk(["m:Hello", "a:One", "a:Two", "m:Three"])
    assert align(known, hashed("a:One", "a:Two", "m:Other")) is None
    assert find(known, "a:Two", "m:Three", "a:Four").first == 2


def test_two_equal_runs_have_no_place_unless_one_is_longer() -> None:
    known = talk(["m:Hello", *("m:x", "a:y", "m:z", "a:w"), *("m:x", "a:y", "m:v", "a:u")])
    assert align(known, hashed("m:x", "a:y", "m:q")) is None
    assert find(known, "a:w", "m:x", "a:y", "m:q").first == 4
    assert find(known, "m:x", "a:y", "m:z", "a:q").first == 1


def test_a_beginning_of_one_line_is_enough_only_with_an_id() -> None:
    known = talk(["a:Hello"])
    assert find(known, "a:Hello", "m:New").first == 0
    assert align(known, hashed("a:Hello", "m:New"), strict=True) is None


def test_equal_runs_of_branches_are_one_place() -> None:
    edited = [*TALK[:2], "m:Coffee?", *TALK[3:]]
    known = talk(TALK, edited)
    assert find(known, *TALK[4:], "m:More?").end == find(known, *edited, "m:More?").end
    back = extend(known, find(known, *TALK), hashed(*TALK))
    assert find(back, *TALK[4:], "m:More?").end == find(known, *TALK, "m:More?").end


def test_a_summary_stands_for_older_lines() -> None:
    known = talk(TALK)
    place = find(known, "s:Before.", *TALK[4:], "m:More?")
    assert (place.first, place.head, place.length) == (3, 1, 9)
    assert place.end == find(known, *TALK, "m:More?").end
    two = find(known, "a:Sum up.", "m:Before.", "a:So.", *TALK[4:], "m:More?")
    assert (two.first, two.head, two.length) == (1, 3, 9)
    behind = find(known, "s:Before.", "a:Yess", *TALK[4:])
    assert (behind.first, behind.head) == (2, 1)
    assert list(behind.beginnings(known))[-2:] == list(find(known, *TALK).beginnings(known))[-3:-1]


def test_a_chat_whose_beginning_was_changed_starts_over() -> None:
    known = talk(TALK)
    for begin in (["s:Hello"], ["s:Long", "s:before."]):
        place = find(known, *begin, *TALK[1:])
        assert (place.first, place.head, place.length) == (0, 0, 7 + len(begin))
        assert list(place.beginnings(known))[-1] == ROOT
        assert not set(place.chains[1:]) & set(known.by_chain)


def test_an_edited_line_is_followed_by_other_chains() -> None:
    known = talk(TALK)
    whole = find(known, *TALK)
    first = find(known, "m:Milkk?", *TALK[5:])
    assert (first.first, first.head, first.length) == (4, 0, 8)
    assert next(iter(first.beginnings(known))) not in known.by_chain
    assert whole.chains[4] in list(first.beginnings(known))
    assert whole.chains[5] not in list(first.beginnings(known))
    begin = find(known, "m:Hallo", *TALK[1:])
    assert (begin.first, begin.length) == (0, 8)
    assert list(begin.beginnings(known))[-1] == ROOT


def test_a_chat_that_begins_alike_is_at_its_beginning_though_a_line_is_deleted() -> None:
    known = talk(TALK)
    assert find(known, TALK[0], *TALK[2:]).length == 7
    assert find(known, *TALK[:3], *TALK[4:]).length == 7
    assert find(known, TALK[0], *TALK[2:], strict=True).length == 7


def test_lines_that_were_sent_longest_ago_are_forgotten() -> None:
    chat = [f"{'am'[at % 2]}:{at}" for at in range(MAX_LINES + 10)]
    known = talk(chat)
    assert len(known.lines) == MAX_LINES
    assert known.lines[0].parent is None
    assert find(known, *chat, "a:new").first == 0  # all lines before are equal, so it is known
    assert find(known, *chat[-5:], "a:new").length == len(chat) + 1
    assert align(known, hashed(*chat[:9])) is None
    oldest = find(known, "m:edited", *chat[11:40])
    assert (oldest.first, oldest.length) == (10, 40)
    assert list(oldest.beginnings(known))[-1] != ROOT


def test_kept_chains_place_a_beginning_whose_lines_are_forgotten() -> None:
    lines = hashed(*TALK)
    place = align(KnownLines(), [*lines], kept={start_over(lines).chains[4]: 4})
    assert place is not None
    assert (place.first, place.overlap) == (0, 4)


def test_what_is_written_is_read_again() -> None:
    known = talk(TALK, TALK[:4], [*TALK[:4], "m:Cake?"])
    assert KnownLines.parse(known.dump()).lines == list(known.lines)
    assert len(known.dump()) == 39 * 9


def test_a_branch_takes_along_what_is_before_it() -> None:
    known = talk(TALK)
    place = find(known, *TALK[2:4], "m:Cake?")
    assert not is_continued(known, place)
    assert is_continued(known, find(known, *TALK[6:], "m:More?"))
    assert is_continued(KnownLines(), place)
    alone, there = branch_of(known, place)
    assert [each.number for each in alone.lines] == [0, 1]
    assert list(there.beginnings(alone)) == list(place.beginnings(known))
    assert branch_of(known, start_over(hashed("m:x")))[0].lines == []


def test_equal_lines_and_long_chats_take_little_time() -> None:
    chat = [f"{'am'[at % 2]}:{at}" for at in range(500)]
    same = ["m:ok"] * 500
    for known, sent in (
        (talk(chat), hashed(*chat[1:], "a:new")),
        (talk(chat), hashed("s:sum", *chat[9:])),
        (talk(same), hashed("s:sum", *same)),
    ):
        seconds = []
        for _ in range(9):
            begin = time.thread_time()
            align(known, sent)
            seconds.append(time.thread_time() - begin)
        assert min(seconds) * 1000 < MOST_MS


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize("first", [0, 2, 3])
def test_chats_that_differ_in_a_sent_line_share_nothing_from_there_on(at: int, first: int) -> None:
    if at < first:
        return
    known = talk(*(TALK[: count + 1] for count in range(len(TALK))))
    speaker, _, text = TALK[at].partition(":")
    sent = hashed(*TALK[first:at], f"{speaker}:{text}?!", *TALK[at + 1 :], "m:More?")
    place = align(known, sent, strict=True)
    if place is not None:
        shared = [each for each in place.beginnings(known) if each in known.by_chain]
        assert all(known.lines[known.by_chain[each]].number < at for each in shared)


def test_pairs_of_lines_are_bounded_and_hold_a_reply() -> None:
    chat = [f"{'am'[at % 2]}:{at}" for at in range(600)]
    assert len(pairs_of(b"scope", talk(chat))) == MAX_PAIRS
    assert pairs_of(b"scope", talk(["a:1", "a:2", "m:3"])) == pairs_of(
        b"scope", talk(["a:2", "m:3"])
    )
    assert not pairs_of(b"scope", talk(["a:1", "m:2"])) & pairs_of(b"other", talk(["a:1", "m:2"]))
