"""From a graph to a plan: which kernel runs when, and where every value is."""

from insitu.planner.changes.stripes.node import Made
from insitu.planner.plan import Plan, plan, plan_all
from insitu.planner.verify import verify

__all__ = ["Made", "Plan", "plan", "plan_all", "verify"]
