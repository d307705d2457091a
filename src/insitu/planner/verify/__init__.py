"""The proof: a finished plan is replayed on a map of its bytes. Shares no code with the rest of the planner."""

from insitu.planner.verify.replay import verify

__all__ = ["verify"]
