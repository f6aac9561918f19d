"""A placeholder for a package that is not there: importable, callable, comparable, and never of any use."""

from __future__ import annotations

import dis
import sys
from typing import Any


class Anything:
    """Whatever is asked of it is another one."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Anything()

    def __iter__(self) -> Any:
        """As many as an unpacking assignment takes, else none."""
        frame = sys._getframe(1)
        here = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
        return iter([Anything() for _ in range(here.arg or 0)] if here and here.opname == "UNPACK_SEQUENCE" else [])

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        return ()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *problem: Any) -> None:
        """Nothing to close."""

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0


def _answer(value: Any) -> Any:
    return lambda *args, **kwargs: value() if isinstance(value, type) else value


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "pow", "neg",
              "matmul", "rmatmul", "and", "or", "getitem"):
    setattr(Anything, f"__{_name}__", _answer(Anything))
for _name in ("lt", "le", "gt", "ge", "contains"):
    setattr(Anything, f"__{_name}__", _answer(False))
setattr(Anything, "__setitem__", _answer(None))  # noqa: B010  after the class, like the others
