"""What every exporter asks of the node that it writes."""

from __future__ import annotations

from typing import Any

from insitu.graph import Node, Type


class AtNode:
    """Its attributes and types."""

    node: Node

    def __getitem__(self, attribute: str) -> Any:
        return self.node.attrs[attribute]

    def type(self, i: int) -> Type:
        """Of an input."""
        return self.node.inputs[i].type

    @property
    def out(self) -> Type:
        """Of the first output."""
        return self.node.output.type

    @property
    def int8(self) -> bool:
        return self.out.dtype == "s8"

    @property
    def count(self) -> int:
        """How many inputs it has."""
        return len(self.node.inputs)
