"""Lint: finds mistakes in a book before they show up in a chat.

A book is read as its policy reads it (`reading`, `judged`), its keys are searched in its own texts
with the engine's automaton (`scanning`), and rules add findings to a report (`report`), which folds
repeated ones. `codes` is the table of all kinds of findings.
"""

from lorewell.insight.lint.codes import TABLE, LintCode
from lorewell.insight.lint.diagnostics import diagnostics
from lorewell.insight.lint.linting import lint, policy_of, settings_for

__all__ = ["TABLE", "LintCode", "diagnostics", "lint", "policy_of", "settings_for"]
