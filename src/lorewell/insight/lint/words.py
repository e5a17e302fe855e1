"""The most common words of languages, which nearly every message holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]+")
_ENOUGH: Final = 3  # common words of a language that show that texts are in it
_MAX_CHARS: Final = 200_000

_COMMON: Final[Mapping[str, str]] = {
    "en": "the a an and or but of to in on at by for from with as is are was were be been am it its"
    " he she they we you i me my your his her their our this that these those there here what who"
    " when where how not no yes do does did has have had will would can could if so then than all"
    " one up out about into just like",
    "de": "der die das und oder aber ein eine einer eines einem einen ist sind war waren sein hat"
    " haben nicht ich du er sie es wir ihr mit von zu zum zur auf für in im an als auch so wie dass"
    " den dem des noch nur was wer",
    "fr": "le la les un une des du de et ou mais est sont était être avoir a ont ne pas je tu il"
    " elle nous vous ils elles ce cette ces que qui dans sur pour par avec au aux en se sa son ses",
    "es": "el la los las un una unos unas de del y o pero es son era ser estar está no yo tú él"
    " ella nosotros ellos que en a con por para su sus se lo al como más muy este esta",
    "pt": "o a os as um uma de do da dos das e ou mas é são era ser estar está não eu tu ele ela"
    " nós eles que em no na com por para seu sua se ao como mais muito este esta",
    "it": "il lo la i gli le un uno una di del della e o ma è sono era essere non io tu lui lei noi"
    " voi loro che in con per su al alla si come più molto questo questa",
    "ru": "и в во не на я он она оно они мы вы ты что как это этот эта с со а но по к ко у из за от"
    " то же бы был была было были так его её их для о об или да нет все",
    "ja": "の に は を が で と も へ から まで この その あの これ それ あれ です ます した"
    " いる ある する なる こと もの ない ので 私 僕 俺 君",
    "ko": "이 그 저 것 수 는 은 를 을 가 에 에서 와 과 도 로 으로 하다 있다 없다 나 너 우리 그리고",
    "zh": "的 了 是 在 不 我 你 他 她 它 有 这 那 就 也 都 和 与 说 要 会 上 下 来 去 到"
    " 我们 你们 他们 她们 什么 没有 这个 那个 一个 自己 知道 可以 不是"
    " 就是 怎么 因为 所以 但是 如果 这样 现在 時候 时候 這 個 說 會 來 們"
    " 我們 你們 他們 沒有 這個 那個 一個",
}
COMMON_WORDS: Final = {name: frozenset(words.split()) for name, words in _COMMON.items()}
_UNSPACED: Final = ("zh", "ja", "ko")  # their words are told by their letters


def common_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the common words of the languages that texts are written in.

    Args:
        texts: the texts, folded.

    >>> "the" in common_words(["the lamp is in the tower"]), "die" in common_words(["the lamp"])
    (True, False)
    """
    seen: set[str] = set()
    room = _MAX_CHARS
    for text in texts:
        seen.update(_WORD.findall(text[:room]))
        room -= len(text)
        if room <= 0:
            break
    scores = {
        name: len(words & seen) for name, words in COMMON_WORDS.items() if name not in _UNSPACED
    }
    best = max(scores.values())
    spoken = [name for name, score in scores.items() if score == best and score >= _ENOUGH]
    return frozenset().union(*(COMMON_WORDS[name] for name in (*(spoken or ("en",)), *_UNSPACED)))
