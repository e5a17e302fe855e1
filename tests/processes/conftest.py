"""What tests of processes share."""

from program import lorewell_fixture  # noqa: F401  a fixture
