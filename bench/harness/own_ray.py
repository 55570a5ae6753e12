"""A Ray instance of this process alone."""

from __future__ import annotations

import os
from typing import Any


def start_ray(**options: Any) -> Any:
    """Starts it, and returns the module `ray`. Another instance of this machine is left alone."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        **options,
    )
    return ray
