"""From a plan to C: text from values (c.py), and the program around it (program.py)."""

from insitu.codegen.program import Program, emit_program, with_state

__all__ = ["Program", "emit_program", "with_state"]
