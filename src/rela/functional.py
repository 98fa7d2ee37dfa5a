"""The functional forms under the name that ``torch.nn.functional`` suggests: ``import rela.functional as RF``."""

from rela.attention import functional as _forms
from rela.attention.functional import *  # noqa: F403 (the names are listed there, once)

__all__: list[str] = []
__all__ += _forms.__all__
