"""SillyTavern's macros, in both engines: pure functions of a request and of what macros set.

Source: docs/rules/sillytavern-macros.md.
"""

from lorewell.engine.sillytavern.macros.expander import Macros, may_hold_macro

__all__ = ["Macros", "may_hold_macro"]
