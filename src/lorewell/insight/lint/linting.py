"""Lints a book: all rules over the book as its policy reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.engine.tokens import TokenCounter, counter as token_counter
from lorewell.errors import Fault, ValidationFailedError
from lorewell.insight.lint.between import check_other_books
from lorewell.insight.lint.codes import BY_CODE, matching
from lorewell.insight.lint.conditions import check_conditions
from lorewell.insight.lint.contents import check_contents, check_costs, check_places
from lorewell.insight.lint.groups import check_groups
from lorewell.insight.lint.ignoring import ignored_in
from lorewell.insight.lint.judged import JudgedBook, LintSettings
from lorewell.insight.lint.key_forms import check_key_forms
from lorewell.insight.lint.keys import check_keys
from lorewell.insight.lint.logic import check_logic
from lorewell.insight.lint.reading import judge
from lorewell.insight.lint.recursion import check_recursion
from lorewell.insight.lint.regexes import check_regexes
from lorewell.insight.lint.report import Report
from lorewell.insight.lint.scanning import scan_texts
from lorewell.insight.lint.timing import check_timing
from lorewell.model import BookCreate, SelectRequest
from lorewell.model.activate import SillyTavernRequest, SillyTavernSettings
from lorewell.model.binding import Policy, PolicyChoice, original_policy
from lorewell.model.lint import Finding
from lorewell.model.parse import parse_model
from lorewell.model.prompt_settings import PROMPT_TOKEN_BUDGET
from lorewell.model.replica import ReplicaRequest
from lorewell.model.select import SelectOptions

PolicyRequest = SelectRequest | SillyTavernRequest | ReplicaRequest
# Of a model whose context is not known; the budget is a share of it.
USUAL_CONTEXT_TOKENS: Final = 32_768
_WHOLE: Final = 100  # percent
_ANY_BOOK: Final = {"book_id": "00000000-0000-8000-8000-000000000000"}


def policy_of(book: BookCreate, choice: PolicyChoice = "auto") -> Policy:
    """Return the policy under which a book is judged."""
    return original_policy(book) if choice == "auto" else choice


def lint(  # noqa: PLR0913  an option is a parameter
    book: BookCreate,
    *,
    policy: PolicyChoice = "auto",
    request: PolicyRequest | None = None,
    others: Sequence[BookCreate] = (),
    select: Sequence[str] = (),
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> tuple[Finding, ...]:
    """Return the findings of a book, in the order of the codes, then of the entries.

    Args:
        book: the book. Disabled entries are not judged.
        policy: the policy that the book is used with; `auto` chooses by the book's format.
        request: a request of that policy; its settings, state and budget replace the usual ones.
        others: books that are used together with this one.
        select: codes, names, or beginnings of codes; only these are reported. Empty means all.
        counter: counts tokens; by default in `cl100k_base`.
        steps: the work budget; no limit by default.

    Raises:
        ValidationFailedError: no code is named as `select` says, or the request belongs to another
            policy.
        TooExpensiveError: it needs more than `steps`.

    >>> from lorewell import BookCreate, Entry
    >>> lamp = Entry(id="lamp", content="It burns.", keys=["灯塔，灯"])
    >>> [found] = lint(BookCreate(name="Harbour", entries=[lamp]))
    >>> found.code, found.name, found.pointer, found.fixes[0].patch[0].value
    ('LW003', 'key-separator', '/entries/0/keys/0', ['灯塔', '灯'])
    """
    codes = _selected(select)
    settings = settings_for(policy_of(book, policy), request)
    counter = counter or token_counter()
    steps = Steps(NO_LIMIT) if steps is None else steps
    judged = judge(book, settings, counter, steps)
    report = Report(judged)
    _check_all(judged, [judge(each, settings, counter, steps) for each in others], report)
    return report.findings(codes, ignored_in(book))


def _check_all(book: JudgedBook, others: Sequence[JudgedBook], report: Report) -> None:
    scan = scan_texts(book)
    check_keys(book, scan, report)
    check_key_forms(book, scan, report)
    check_regexes(book, report)
    check_logic(book, report)
    check_conditions(book, report)
    check_groups(book, report)
    check_recursion(book, scan, report)
    check_timing(book, report)
    check_contents(book, report)
    check_costs(book, report)
    check_places(book, report)
    check_other_books(book, others, report)


def _selected(select: Sequence[str]) -> frozenset[str]:
    if not select:
        return frozenset(BY_CODE)
    faults = [
        Fault(f"/select/{at}", f"no code is or begins with {wanted!r}")
        for at, wanted in enumerate(select)
        if not matching(wanted)
    ]
    if faults:
        raise ValidationFailedError.at(*faults)
    return frozenset().union(*map(matching, select))


def settings_for(policy: Policy, request: PolicyRequest | None = None) -> LintSettings:
    """Return what a book is judged for: the values of a request, or the usual ones.

    Raises:
        ValidationFailedError: the request belongs to another policy.
    """
    match policy, request:
        case "native", None | SelectRequest():
            return _native(request)
        case "sillytavern", None | SillyTavernRequest():
            return _sillytavern(request)
        case "replica", None | ReplicaRequest():
            values = None if request is None else request.dynamic_table_data.current_values
            return LintSettings(
                policy="replica",
                scan_depth=1,
                recursion=False,
                budget_tokens=0,
                constant_tokens=0,
                state=values,
            )
        case _:
            raise ValidationFailedError(f"The request is not one of the policy {policy}.")


def _native(request: SelectRequest | None) -> LintSettings:
    options = SelectOptions(token_budget=PROMPT_TOKEN_BUDGET) if request is None else request
    return LintSettings(
        policy="native",
        scan_depth=options.scan_depth,
        recursion=options.max_recursion_rounds > 0,
        budget_tokens=options.token_budget,
        constant_tokens=int(options.token_budget * options.constant_budget_ratio),
        state=None if request is None or "state" not in request.model_fields_set else request.state,
        variables=None
        if request is None or "template_vars" not in request.model_fields_set
        else frozenset(request.template_vars),
    )


def _sillytavern(request: SillyTavernRequest | None) -> LintSettings:
    settings = SillyTavernSettings() if request is None else request.settings
    context = USUAL_CONTEXT_TOKENS if request is None else request.context_tokens
    budget = int(settings.world_info_budget * context / _WHOLE)
    if settings.world_info_budget_cap:
        budget = min(budget, settings.world_info_budget_cap)
    return LintSettings(
        policy="sillytavern",
        scan_depth=settings.world_info_depth,
        recursion=settings.world_info_recursive,
        budget_tokens=budget,
        constant_tokens=budget,
        case=settings.world_info_case_sensitive,
        whole_words=settings.world_info_match_whole_words,
    )


def read_request(policy: Policy, document: object, *, state: object = None) -> PolicyRequest:
    """Return a request of a policy to judge a book with.

    Members that lint does not need may be left out.

    Args:
        policy: the policy.
        document: the request as JSON; None for one that says nothing.
        state: the values that conditions read, if the request does not have them.

    Raises:
        ValidationFailedError: the request breaks its schema.
    """
    given = {} if document is None else document
    if not isinstance(given, Mapping) or not isinstance(state, Mapping | None):
        raise ValidationFailedError("The request and the state must be JSON objects.")
    match policy:
        case "native":
            usual: dict[str, object] = {
                "query": "-",
                "books": [_ANY_BOOK],
                "token_budget": PROMPT_TOKEN_BUDGET,
            }
            own = {} if state is None else {"state": state}
            return parse_model(SelectRequest, {**usual, **own, **given})
        case "sillytavern":
            return parse_model(
                SillyTavernRequest, {"context_tokens": USUAL_CONTEXT_TOKENS, **given}
            )
        case "replica":
            own = {} if state is None else {"dynamicTableData": {"currentValues": state}}
            return parse_model(ReplicaRequest, {**own, **given})
