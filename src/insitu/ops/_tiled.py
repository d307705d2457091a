"""Updates by tiles of their gradient, by op name: what planner/ looks up. The facts stand with the ops."""

from __future__ import annotations

from insitu.graph.tiles import TiledUpdate
from insitu.ops.block_update import sgd_residual_block_s8
from insitu.ops.update_int import sgd_residual_s8

TILED_UPDATES: dict[str, TiledUpdate] = {
    op.name: op.facts.tiles for op in (sgd_residual_s8, sgd_residual_block_s8) if op.facts.tiles
}
