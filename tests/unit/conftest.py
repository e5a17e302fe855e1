"""What tests of the program share."""

from program import lorewell_fixture  # noqa: F401  a fixture
