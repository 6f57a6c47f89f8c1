"""Why the engine does not take a model."""

from regard.errors import ModelError


class NotForEngine(ModelError):
    """A model that is whole, but of a kind that the engine does not know; `reason` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the native engine cannot run this model: {reason}; search with torch (`--engine torch`)")
        self.reason = reason


def refused(reason: str) -> NotForEngine:
    """An error that says what the engine does not know."""
    return NotForEngine(reason)
