#!/usr/bin/env python3
"""Measures how fast this GPU does five kinds of work, and prints a CSV: kind of work, rate, unit, what was measured.

The kinds are those of `src/catalog/speeds.csv`. Each rate is the median of several repetitions. Needs PyTorch with CUDA.
"""

import statistics
import time

import torch

torch.manual_seed(1)
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def seconds(work, repetitions=9):
    """The median time of `work`, after two repetitions that are not counted."""
    times = []
    for turn in range(repetitions + 2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if turn >= 2:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def graph(work):
    """The same work without the time that the CPU takes to launch its kernels."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        work()
    return captured.replay


def row(work, rate, unit, what):
    print(f"{work},{rate:.4g},{unit},{what}", flush=True)


def product(size, dtype, repeat):
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)

    def work():
        for _ in range(repeat):
            torch.mm(a, b, out=out)

    return 2 * size**3 * repeat / seconds(work) / 1e12


print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
print("work,rate,unit,benchmark")
row("compute", product(8192, torch.bfloat16, 20), "TFLOPS", "product of two random 8192 x 8192 matrices in BF16")
row("hpc", product(4096, torch.float64, 10), "TFLOPS", "product of two random 4096 x 4096 matrices in FP64")

source = torch.randn(2**31, **BF16)
target = torch.empty_like(source)
row("memory", 2 * source.nbytes / seconds(lambda: target.copy_(source)) / 1e9, "GB/s", "copy of 4 GiB on the GPU: bytes read and written")
del source, target

# The matrices of Llama 7B: 32 layers of 4096 channels, 11008 in the feed-forward part. Random weights take as long.
shapes = [(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)]
weights = [torch.randn(shape, **BF16) / 64 for _ in range(32) for shape in shapes]
inputs = {(tokens, size): torch.randn(size, tokens, **BF16) for tokens in (1, 2048) for size in (4096, 11008)}


def tokens_pass(tokens):
    def work():
        for weight in weights:
            weight @ inputs[tokens, weight.shape[1]]

    return work


row("inference_decode", 1 / seconds(graph(tokens_pass(1))), "tokens/s", "the matrices of Llama 7B in BF16 times one vector")
row("inference_prefill", 2048 / seconds(graph(tokens_pass(2048))), "tokens/s", "the matrices of Llama 7B in BF16 times 2048 vectors")
del weights, inputs

layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, dropout=0.0, batch_first=True, norm_first=True)
model = torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
batch = torch.randn(8, 1024, 2048, device="cuda")


def step():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


row("training", batch.shape[0] * batch.shape[1] / seconds(step), "tokens/s", "step of 8 transformer layers of 2048 channels with AdamW in BF16 autocast")
