"""A training program for a board: its limits, whether it fits, the cost of a lower peak, and the folder to build."""

from insitu.deploy.deployment import (
    IN_PLACE,
    Deployment,
    board_programs,
    deploy,
    deploy_program,
    lowered_by,
    starting_from,
)
from insitu.deploy.limits import Limits, limits_of, usual_gradients
from insitu.deploy.programs import Programs, bare_sram, state_bytes

__all__ = [
    "IN_PLACE",
    "Deployment",
    "Limits",
    "Programs",
    "bare_sram",
    "board_programs",
    "deploy",
    "deploy_program",
    "limits_of",
    "lowered_by",
    "starting_from",
    "state_bytes",
    "usual_gradients",
]
