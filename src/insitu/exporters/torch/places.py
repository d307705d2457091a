"""Where each constant of a module's graph is in its state dict, whatever layout the importer chose.

The module is imported twice: as it is, and with numbered parameters. Where a number arrives in the graph says which
element of which tensor it was. A constant that is computed from a parameter (weight norm, 1 + gamma) has no place.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch

from insitu.graph import Graph, Value
from insitu.importers import load

FIRST = 2  # numbers start here: the importer leaves out what is added as zero or multiplied by one


@dataclass(frozen=True)
class Places:
    """A module's graph with numbers for parameters, its graph as it is, and its state dict, which may be written."""

    graph: Graph
    own: Graph
    state: dict[str, torch.Tensor]

    def find(self, name: str) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The tensor of this constant, flat, and the elements in the constant's order; None if it has no place."""
        tensor = self.state.get(self.graph.parameters.get(name, name))
        numbers = self.graph.constants.get(name)
        if tensor is None or numbers is None or not tensor.is_floating_point() or not _counts(numbers, tensor.numel()):
            return None
        flat, elements = tensor.view(-1), torch.from_numpy(numbers.astype(np.int64).reshape(-1) - FIRST)
        known = self.own.constants.get(name)
        fits = known is None or np.array_equal(flat[elements].float().numpy(), known.reshape(-1).astype(np.float32))
        return (flat, elements) if fits else None

    def array(self, value: Value) -> np.ndarray | None:
        """What the module has for this constant; None for other values."""
        found = self.find(value.name)
        if found is not None:
            return found[0][found[1]].float().numpy().reshape(value.shape)
        return self.own.constants.get(value.name, self.graph.constants.get(value.name))

    def written(self, arrays: dict[str, np.ndarray]) -> set[str]:
        """Write these constants into the state dict; returns the names of those that have a place."""
        places = {name: found for name in arrays if (found := self.find(name)) is not None}
        for name, (flat, elements) in places.items():
            flat[elements] = torch.from_numpy(np.ascontiguousarray(arrays[name], np.float32).reshape(-1)).to(flat.dtype)
        return set(places)


def _counts(numbers: np.ndarray, count: int) -> bool:
    """Is this every number of a tensor with so many elements, once?"""
    return numbers.size == count and np.array_equal(np.sort(numbers, axis=None), np.arange(FIRST, count + FIRST))


def places_of(module: torch.nn.Module, example: tuple[torch.Tensor, ...]) -> Places:
    state = {name: tensor.clone().contiguous() for name, tensor in module.state_dict().items()}
    return Places(load(with_numbers(module), example), load(module, example), state)


def with_numbers(module: torch.nn.Module) -> torch.nn.Module:
    """A copy whose every float tensor counts its elements."""
    made = copy.deepcopy(module).eval()
    with torch.no_grad():
        for tensor in made.state_dict().values():
            if tensor.is_floating_point():
                counted = torch.arange(FIRST, tensor.numel() + FIRST, dtype=torch.float64)
                tensor.copy_(counted.reshape(tensor.shape))
    return made
