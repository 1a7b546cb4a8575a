"""One paper, one file. A method is a frozen dataclass of settings with two verbs, `attach` and `detach`."""

from infuser.methods.ernie import Ernie
from infuser.methods.kam import Kam
from infuser.methods.kar import Kar

__all__ = ["Ernie", "Kam", "Kar"]
