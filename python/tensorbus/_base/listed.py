"""Lists that a notebook shows as a table."""

from __future__ import annotations

from typing import Any, ClassVar

from tensorbus._base.generics import T


class Listed(list[T]):
    """A list with `_repr_html_`. It is copied, sliced and pickled as a plain list."""

    __slots__ = ()
    _kind: ClassVar[type]  # of the elements

    def _repr_html_(self) -> str | None:
        """For notebooks: a table; None if the list has been given other elements."""
        return self._table() if all(isinstance(each, self._kind) for each in self) else None

    def _table(self) -> str:
        raise NotImplementedError

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return list, ([*self],)
