"""The kinds of value a hardware file holds, and what every table of it has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Upper bounds keep the 64-bit integer time of the engine from overflowing; they are far beyond any hardware.
Count = Annotated[int, Field(gt=0, le=2**40)]
CountOrNone = Annotated[int, Field(ge=0, le=2**40)]
Cycles = Annotated[float, Field(ge=0, le=1e6)]
Microseconds = Annotated[float, Field(ge=0, le=1e6)]
Nanoseconds = Annotated[float, Field(ge=0, le=1e6)]
Rate = Annotated[float, Field(ge=1e-3, le=1e6)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Table(BaseModel):
    """A table of a hardware file: read-only, closed to unknown keys, and strict (no number from a string)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OptionalUnit(Table):
    """A unit some GPUs lack. Where `supported` is true its other keys are required; absent ones read 0."""

    supported: bool = Field(description="whether this GPU has the unit")

    @model_validator(mode="after")
    def _complete_if_supported(self) -> "OptionalUnit":
        missing = [key for key in type(self).model_fields if key not in self.model_fields_set]
        if self.supported and missing:
            raise ValueError(f"supported = true, but these keys are missing: {', '.join(missing)}")
        return self
