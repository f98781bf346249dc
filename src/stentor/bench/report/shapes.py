"""Values of a result file taken for what they should be."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

T = TypeVar("T")

Figure: TypeAlias = Annotated[float, Field(ge=0)]
Count: TypeAlias = Annotated[int, Field(ge=1)]


def shaped(shape: TypeAdapter[T], value: object) -> T:
    """Take a value for what it should be.

    Raises:
        ValueError: It is something else; the message names the first thing that is wrong.
    """
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
