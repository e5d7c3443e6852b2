"""Which rank is this process? Asked of whoever knows: PyTorch if it is in use, else the environment.

Imports no framework. A launcher's variables count only in pairs, and Slurm's only inside a step that srun
started: in a batch script SLURM_NTASKS is set although there is one process.
"""

import os
import sys

from .errors import SpecError

_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun and most launchers
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun
)


def _from_torch() -> tuple[int, int] | None:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment() -> tuple[int, int] | None:
    for rank, world_size in _VARIABLES:
        if rank in os.environ and world_size in os.environ:
            try:
                return int(os.environ[rank]), int(os.environ[world_size])
            except ValueError:
                said = f"{rank}={os.environ[rank]!r}, {world_size}={os.environ[world_size]!r}"
                raise SpecError(f"{said}: these should be numbers; or pass rank= and world_size=",
                                "SL_E_SPEC") from None
    return None


def find_rank(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """(rank, world size): the arguments if given, else an initialised torch.distributed, else the
    environment, else (0, 1). SpecError if only one argument is given."""
    if (rank is None) != (world_size is None):
        raise SpecError("rank and world_size belong together: give both or neither", "SL_E_SPEC")
    if rank is not None and world_size is not None:
        return rank, world_size
    return _from_torch() or _from_environment() or (0, 1)
