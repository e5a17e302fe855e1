"""What every model of the contract has in common."""

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """A frozen value that refuses unknown fields, at every level. Source: spec/native.md §3."""

    model_config = ConfigDict(frozen=True, extra="forbid")
