"""What all parts of a recipe are."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a recipe: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
