"""Why the engine does not take a model."""

from regard.errors import ModelError


def refused(reason: str) -> ModelError:
    """An error that says what the engine does not know."""
    return ModelError(f"the native engine cannot run this model: {reason}; search with torch (`--engine torch`)")
