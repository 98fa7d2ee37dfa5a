"""What the tests of the service share."""

from tests.report.conftest import browser as browser
