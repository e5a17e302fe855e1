"""Made-up books: the same for the same random numbers, and no two of the same name."""

from __future__ import annotations

from random import Random

from lorewell import BookCreate, Entry

WORDS = (
    *("lamp", "mole", "ferry", "toll", "fog", "anchor", "bell", "eel", "kelp", "chart", "rope"),
    *("灯塔", "渡口", "雾", "船钱", "钟声", "礁石", "маяк", "паром", "φάρος", "été", "🜁"),
)


def phrase(chance: Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def make_book(chance: Random, name: str, *, entries: int) -> BookCreate:
    """Return a book of that many entries, of 10 to 60 words each."""
    return BookCreate(
        name=name,
        entries=tuple(
            Entry(
                id=f"e{number}",
                content=phrase(chance, chance.randint(10, 60)),
                keys=(f"{chance.choice(WORDS)}{number % 7 or ''}", phrase(chance, 2)),
                order=chance.randint(-5, 5),
                priority=chance.randint(-2, 2),
                probability=chance.choice((100, 100, 100, 50)),
                exclude_recursion=chance.random() < 0.5,
                prevent_recursion=chance.random() < 0.5,
            )
            for number in range(entries)
        ),
    )
