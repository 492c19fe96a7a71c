"""Keeps a GPU busy for a known part of the time: the load of the scenarios in this folder. Needs PyTorch with CUDA.

  python3 load.py --until 20 [--busy 0.5] [--period 0.02] [--memory 4] [--then hold|crash]

`--until` counts seconds from the start of this process, so the time that importing PyTorch takes is included.
"""

import time

BEGAN = time.monotonic()

import argparse
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--until", type=float, required=True, help="seconds from the start of the process")
parser.add_argument("--busy", type=float, default=1.0, help="share of each period with work on the GPU")
parser.add_argument("--period", type=float, default=0.02, help="seconds")
parser.add_argument("--memory", type=float, default=0.0, help="GiB of GPU memory to hold as well")
parser.add_argument("--then", choices=["end", "hold", "crash"], default="end", help="what follows the work")
asked = parser.parse_args()

import torch

held = torch.empty(int(asked.memory * 2**30), dtype=torch.uint8, device="cuda")
a = torch.rand(4096, 4096, device="cuda", dtype=torch.bfloat16)
(a @ a).sum().item()
print(f"ready after {time.monotonic() - BEGAN:.2f} s", file=sys.stderr)
while (now := time.monotonic() - BEGAN) < asked.until:
    end = min(now + asked.period * asked.busy, asked.until)
    while time.monotonic() - BEGAN < end:
        (a @ a).sum().item()
    if asked.busy < 1:
        time.sleep(max(0.0, now + asked.period - (time.monotonic() - BEGAN)))
if asked.then == "hold":
    time.sleep(3600)
if asked.then == "crash":
    # More than any GPU has, so this raises torch.OutOfMemoryError.
    torch.empty(2**50, dtype=torch.uint8, device="cuda")
