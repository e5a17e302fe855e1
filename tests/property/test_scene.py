"""A scene means the same as the fields of each policy, whatever its values are."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from lorewell.model import ActivateRequest, ReplicaRequest, SelectRequest
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene
from lorewell.model.scene_fields import for_request, with_scene
from support import BOOK_ID

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
FLAT = st.dictionaries(st.sampled_from(["a", "力量", "กข", "hero.b"]), st.integers() | TEXT)
SCENES = st.fixed_dictionaries(
    {"names": st.fixed_dictionaries({"char": TEXT, "user": TEXT}), "seed": TEXT, "state": FLAT}
)


def parsed(model: type[Any], document: dict[str, object], policy: Any) -> Any:
    request = parse_model(model, document)
    return with_scene(request, request.scene, policy)


@given(scene=SCENES, through_interface=st.booleans())
def test_the_scene_and_the_own_fields_make_one_request(
    scene: dict[str, Any], *, through_interface: bool
) -> None:
    names, seed, state = scene["names"], scene["seed"], scene["state"]
    books = {"books": [{"book_id": BOOK_ID}], "query": "?"}
    cases: list[tuple[type[Any], Any, dict[str, object], dict[str, object]]] = [
        (
            SelectRequest,
            "native",
            books,
            {"state": state, "template_vars": names, "seed": seed},
        ),
        (
            ReplicaRequest,
            "replica",
            {"mes": "?"},
            {"dynamicTableData": {"currentValues": state}, **names, "seed": seed},
        ),
        (
            ActivateRequest,
            "sillytavern",
            {"context_tokens": 9},
            {"macros": names, "seed": seed},
        ),
    ]
    for model, policy, base, own in cases:
        given_scene = {**base, "scene": scene}
        if through_interface:  # whose own values give way
            other = {**base, **own, "seed": "another"}
            given_scene = for_request(other, parse_model(Scene, scene), policy)
        expected = parse_model(model, {**base, **own})
        assert parsed(model, given_scene, policy) == expected
