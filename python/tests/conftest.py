from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def two_jobs() -> dict[str, Any]:
    """Two jobs for one node: the second waits for an hour."""
    return {
        "scenario": "Two jobs on one node",
        "nodes": [{"name": "alpha", "machine": "a100-80g-x2"}],
        "jobs": [{"name": "train", "count": 2, "gpus": 2, "duration": "1h"}],
        "expect": ["max(queue_wait) <= 1h", {"job": "train-1", "is": "completed", "by": "2h"}],
    }


@pytest.fixture
def busy() -> dict[str, Any]:
    """Seventy jobs for 32 GPUs, ten of which are gangs on three nodes. All fit an empty cluster."""
    return {
        "scenario": "Jobs and gangs on four nodes",
        "nodes": [{"name": "node", "machine": "a100-80g-x8", "count": 4}],
        "jobs": [
            {"name": "single", "count": 60, "every": "1m", "gpus": 3, "duration": "20m"},
            {"name": "gang", "count": 10, "every": "7m", "gpus": 4, "tasks": 3, "gang": "spread", "duration": "15m"},
        ],
    }
