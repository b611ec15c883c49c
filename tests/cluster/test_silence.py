"""A watch that says nothing for good: no bookmark, no end. The time is that of a real watch, so it runs beside others."""

import time


def test_a_silent_watch_is_given_up(silence):
    """conftest.py silenced this router's connections when the run began, and deleted its objects then."""
    router, stage, begun = silence
    assert stage.silent_answer.status == 200, "its connections were not silent"
    stage.until_status(router, 404, max(5.0, begun + 120 - time.monotonic()))
