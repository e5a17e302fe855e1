"""Fixtures that all tests in a browser share."""

from browser.chromium import (  # noqa: F401  fixtures
    browser_fixture,
    show_fixture,
    visit_fixture,
)
