"""A model shared out among processes (FSDP2), for models that do not fit into one."""

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.utils import _pytree

from regard.models import System
from regard.nn.attention import Keys
from regard.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer
from regard.training.objective import Objective
from regard.training.parallel import Learner
from regard.training.processes import Processes
from regard.training.weights import gather, load_weights

LAYERS = (TransformerEncoderLayer, TransformerDecoderLayer)
"""Parts that are shared out one by one, so that only one of them at a time is whole; the rest is whole in a pass."""


class Shares(Learner):
    """Every process has a share of each weight, its gradient and what the optimiser remembers of it.

    A layer is made whole when it is needed. The system that was given stays whole in the main process, to be judged and
    saved; elsewhere it is let go.
    """

    def __init__(self, system: System, objective: Objective, processes: Processes) -> None:
        super().__init__(copy.deepcopy(system), objective)
        self.processes = processes
        # Keys of a memory are views, which nothing changes in place.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
        mesh = init_device_mesh(next(system.parameters()).device.type, (processes.world,))
        if Keys not in _pytree.SUPPORTED_NODES:
            _pytree.register_dataclass(Keys)
        for layer in self.system.modules():
            if isinstance(layer, LAYERS):
                fully_shard(layer, mesh=mesh)
            if isinstance(layer, TransformerDecoderLayer):
                for method in ("prepare", "step"):
                    register_fsdp_forward_method(layer, method)
        fully_shard(self.lesson, mesh=mesh)
        if not processes.main:
            system.to("meta")

    @contextmanager
    def shown(self, system: System, values: Mapping[str, Tensor] | None) -> Iterator[None]:
        named = values if values is not None else dict(self.system.named_parameters())
        gathered = gather(named.items(), keep=self.processes.main)
        if self.processes.main:
            load_weights(system, gathered)
        yield
