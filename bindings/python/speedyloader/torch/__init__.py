"""torch's DataLoader on the host's loader daemon, for any data set of PyTorch:

    from speedyloader.torch import DataLoader

Importing this imports torch and NumPy; importing speedyloader does not.
"""

from .loader import DataLoader
from .seeding import seed_batch, seed_item

__all__ = ["DataLoader", "seed_batch", "seed_item"]
