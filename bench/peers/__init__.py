"""What the bus is measured beside: one class for each way of handing tensors over."""

from __future__ import annotations

from peers.bus import BusQueue, CopiedTopic, PolledTopic, Topic
from peers.floors import EventFloor, WordFloor
from peers.iceoryx import Iceoryx, PolledIceoryx
from peers.peer import Peer
from peers.pickle_tcp import PickleOverTcp
from peers.pipe import Pipe
from peers.ray_objects import Ray
from peers.shared_memory import OneBlock, SharedBlocks
from peers.torch_queue import SharedTorchQueue, TorchQueue
from peers.zenoh_shm import Zenoh
from peers.zmq_ipc import Zmq


class Plasma(Peer):
    name = "pyarrow Plasma"
    needs = "removed in Arrow 12, without a successor in pyarrow; Ray's store descends from it"


PEERS: list[type[Peer]] = [
    WordFloor,
    PolledTopic,
    PolledIceoryx,
    EventFloor,
    Topic,
    CopiedTopic,
    BusQueue,
    Iceoryx,
    Zenoh,
    Zmq,
    Pipe,
    SharedBlocks,
    OneBlock,
    TorchQueue,
    SharedTorchQueue,
    PickleOverTcp,
    Ray,
    Plasma,
]
