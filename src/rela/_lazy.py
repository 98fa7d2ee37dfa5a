"""Packages whose names are imported on first use, so that `import rela` costs nothing."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping


def attach(
    package: str,
    attributes: Mapping[str, str],
    submodules: Collection[str] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Makes the `__getattr__` and `__dir__` (PEP 562) of a package that imports its names on first use.

    Use it at the end of an `__init__.py`, hidden from type checkers, which read the imports instead:

        if TYPE_CHECKING:
            from rela import attention as attention
            from rela.attention import convert as convert
        else:
            __getattr__, __dir__ = attach(__name__, {"convert": "rela.attention"}, submodules=("attention",))

    Args:
        package: the package's `__name__`.
        attributes: for each exported name, the full name of the module that defines it.
        submodules: modules of the package that are exported as modules.

    Raises:
        ValueError: a name is exported twice, or an attribute has the name of the module it comes from.
            Importing `package.name` would put the module in the attribute's place, depending on who
            imports what first.
    """
    for name, module in attributes.items():
        if module == f"{package}.{name}":
            raise ValueError(
                f"{package!r} cannot export the attribute {name!r} of its submodule of the same name: "
                f"the submodule would hide it; rename the submodule to '_{name}'"
            )
    if twice := sorted(set(attributes) & set(submodules)):
        raise ValueError(f"{package!r} exports {twice} both as attributes and as submodules; keep one")

    def import_attribute(name: str) -> object:
        if name in attributes:
            value = getattr(importlib.import_module(attributes[name]), name)
        elif name in submodules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)  # the next access does not come here again
        return value

    def list_attributes() -> list[str]:
        return sorted({*vars(sys.modules[package]), *attributes, *submodules})

    return import_attribute, list_attributes
