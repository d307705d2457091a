"""All ops. Each is declared once, in one of these files; everything else is looked up from the registry."""

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(m.name for m in iter_modules(__path__)):
    if not _module.startswith("_"):
        import_module(f"{__name__}.{_module}")
