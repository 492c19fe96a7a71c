#!/usr/bin/env python3
"""Draws placement and evaluation requests for a vLLM model, one JSON object to a line (see tests/data/gpustack/SOURCE.md).

    python3 draw.py --seed 1 --count 5000 [--op place|evaluate] > requests.jsonl

Half of the requests are plain; the others have up to three oddities each: picks that are not there or stand twice, flags
that cannot be read, GPUs of several kinds in one worker, instances that hold what they do not state, and more.
"""

import argparse
import json
import random

GIB = 1 << 30
# Name, vendor, type, bytes as the driver reports them.
CARDS = {
    "4090": ("NVIDIA GeForce RTX 4090", "nvidia", "cuda", 25757220864),
    "3060": ("NVIDIA GeForce RTX 3060", "nvidia", "cuda", 12884901888),
    "l40s": ("NVIDIA L40S", "nvidia", "cuda", 48305799168),
    "a100-40": ("NVIDIA A100-SXM4-40GB", "nvidia", "cuda", 42949672960),
    "a100-80": ("NVIDIA A100-SXM4-80GB", "nvidia", "cuda", 85899345920),
    "h200": ("NVIDIA H200", "nvidia", "cuda", 150754820096),
    "7800xt": ("AMD Radeon RX 7800 XT", "amd", "rocm", 17163091968),
    "mi300x": ("AMD Instinct MI300X", "amd", "rocm", 206141652992),
}
STUDIO = ("Apple M2 Ultra", "apple", "mps", 200789721088)
# Billion bytes of weights, heads, vocabulary, architecture, category.
MODELS = [
    (1.2, 16, 151936, "Qwen2ForCausalLM", "llm"),
    (8.0, 32, 128256, "LlamaForCausalLM", "llm"),
    (16.1, 32, 151936, "Qwen3ForCausalLM", "llm"),
    (28.0, 40, 152064, "Qwen2ForCausalLM", "llm"),
    (65.5, 64, 151936, "Qwen3ForCausalLM", "llm"),
    (91.0, 32, 128256, "LlamaForCausalLM", "llm"),
    (141.0, 64, 128256, "LlamaForCausalLM", "llm"),
    (340.0, 128, 129280, "DeepseekV3ForCausalLM", "llm"),
    (0.6, 12, 30522, "BertModel", "embedding"),
    (2.3, 16, 250002, "XLMRobertaModel", "embedding"),
    (16.0, 32, 151669, "Qwen3ForCausalLM", "embedding"),
    (60.0, 16, 250002, "XLMRobertaModel", "embedding"),
    (2.3, 16, 250002, "XLMRobertaForSequenceClassification", "reranker"),
    (8.0, 32, 151669, "Qwen3ForSequenceClassification", "reranker"),
    (130.0, 64, 151669, "Qwen3VLForSequenceClassification", "reranker"),
]


def worker(draw, number):
    if draw.random() < 0.06:
        cards, unified, system = [STUDIO], True, "darwin"
    elif draw.random() < 0.05:
        cards, unified, system = [], False, "linux"
    else:
        kind = draw.choice(list(CARDS))
        cards = [CARDS[kind]] * draw.choice([1, 1, 2, 2, 4, 4, 8, 8, 3, 12])
        unified, system = False, "linux" if draw.random() < 0.97 else "windows"
    labels = {"os": system, "arch": "amd64", "worker-name": f"w{number:02}"}
    if draw.random() < 0.6:
        labels["zone"] = draw.choice("ab")
    return {
        "id": number, "name": f"w{number:02}", "labels": labels, "unified_memory": unified,
        "state": draw.choices(["ready", "not_ready", "unreachable"], [88, 8, 4])[0],
        "ram": draw.choice([64, 192, 512]) * GIB if not unified else 192 * GIB,
        "reserved": {"ram": draw.choice([0, 2]) * GIB, "vram": draw.choice([0, 1, 1]) * GIB},
        "gpus": [{"index": at, "name": name, "vendor": vendor, "type": kind, "vram": total}
                 for at, (name, vendor, kind, total) in enumerate(cards)],
    }


def part(draw, place, share):
    """Some GPUs of a worker; of each a share, or as much as makes the rest exactly 0.9 of it."""
    gpus = draw.sample(place["gpus"], draw.randint(1, min(4, len(place["gpus"]))))
    def claim(gpu):
        exact = int(gpu["vram"] * 0.1) - place["reserved"]["vram"]
        if draw.random() < 0.15 and exact > 0:
            return exact
        return int(gpu["vram"] * (share or draw.choice([0.9, 0.9, 0.5, 0.05])))
    return {"worker_id": place["id"], "gpu_type": gpus[0]["type"], "gpu_indexes": [gpu["index"] for gpu in gpus],
            "vram": {str(gpu["index"]): claim(gpu) for gpu in gpus}}


def instances(draw, workers):
    hosts = [place for place in workers if place["gpus"]]
    made = []
    for number in range(1, 1 + draw.choice([0, 0, 2, 4, 8, 16, 24]) if hosts else 1):
        of = draw.randint(1, 4)
        main = part(draw, draw.choice(hosts), None)
        extra = []
        if draw.random() < 0.2 and len(hosts) > 1:
            extra = [part(draw, place, 0.9) for place in draw.sample(hosts, draw.randint(1, min(3, len(hosts) - 1)))
                     if place["id"] != main["worker_id"]]
        made.append({"id": number, "name": f"m{of}-{number}", "model_id": of, "model_name": f"m{of}", "backend": "vllm",
                     "state": draw.choice(["running", "error", "scheduled"]), "ram": draw.choice([0, 0, GIB]), **main,
                     "subordinates": extra})
    return made


def model(draw, workers):
    billions, heads, vocabulary, architecture, category = draw.choice(MODELS)
    known = draw.random() > 0.05
    made = {
        "id": 1, "name": "m1", "backend": "vllm", "categories": [category] if draw.random() > 0.04 else [],
        "weight_bytes": int(billions * 1e9 * draw.uniform(0.5, 1.5)), "heads": heads if known else None,
        "arch": architecture, "vocab_size": vocabulary if draw.random() > 0.1 else None,
        "placement": draw.choice(["spread", "binpack"]), "distributed": draw.random() < 0.6,
        "replicas": draw.choice([1, 1, 2]),
        "worker_selector": draw.choice([None, None, {}, {"os": "linux"}, {"os": "linux", "zone": "a"}]),
        "gpu_ids": None, "gpus_per_replica": None, "backend_parameters": [], "env": {},
    }
    if draw.random() < 0.2:
        size = draw.choice([1, 2, 4, 8, 3])
        made["backend_parameters"] = draw.choice([[f"--tensor-parallel-size={size}"], [f"-tp={size}"], ["--tp", str(size)],
                                                  [f"--tensor-parallel-size={size}", "--pipeline-parallel-size=2"]])
    if draw.random() < 0.15:
        made["backend_parameters"].append(f"--gpu-memory-utilization={draw.choice([0.5, 0.8, 0.9, 0.95, 0.3])}")
    everything = [(place, gpu) for place in workers for gpu in place["gpus"]]
    if everything and draw.random() < 0.35:
        some = draw.sample(workers, draw.randint(1, min(3, len(workers))))
        pool = [(place, gpu) for place in some for gpu in place["gpus"]] or everything
        picked = draw.sample(pool, draw.randint(1, min(8, len(pool))))
        made["gpu_ids"] = [f"{place['name']}:{gpu['type']}:{gpu['index']}" for place, gpu in picked]
        made["gpus_per_replica"] = draw.choice([None, None, 1, 2, 4])
    return made


def odd_flags(draw, request):
    made = request["model"]["backend_parameters"]
    flag = draw.choice(["--tensor-parallel-size", "--tp", "-tp", "tp", "--pp", "--gpu-memory-utilization", "--dp",
                        "--pcp", "--data-parallel-size-local"])
    value = draw.choice(["abc", "", "0", "0.0", "-1", "2", "4", "1.0", " 2 ", "1_0", "0.45", "--other"])
    at = draw.randint(0, len(made))
    made[at:at] = draw.choice([[f"{flag}={value}"], [flag, value], [flag], [f"{flag} {value}"], [value, flag],
                               [f"{flag}='2'"], [flag, "2", flag, "4"], ["--hybrid", f"{flag}=2"],
                               ["--data-parallel-hybrid-lb", flag, "2"]])


def odd_picks(draw, request):
    names = [place["name"] for place in request["workers"]] + ["ghost", "w:01"]
    ids = request["model"]["gpu_ids"] or [f"{draw.choice(names)}:cuda:0"]
    for _ in range(draw.randint(1, 3)):
        change = draw.randint(0, 4)
        if change == 0:
            ids.append(draw.choice(ids))
        elif change == 1:
            ids.append(f"{draw.choice(names)}:{draw.choice(['cuda', 'rocm', 'mps'])}:{draw.randint(0, 12)}")
        elif change == 2 and len(ids) > 1:
            ids.pop(draw.randrange(len(ids)))
        elif change == 3:
            draw.shuffle(ids)
        else:
            at = draw.randrange(len(ids))
            ids[at] = ids[at].rsplit(":", 1)[0] + f":{draw.randint(0, 15)}"
    request["model"]["gpu_ids"] = ids
    request["model"]["gpus_per_replica"] = draw.choice([None, 0, 1, 2, 3, 8])


def odd_workers(draw, request):
    for place in draw.sample(request["workers"], min(4, len(request["workers"]))):
        cards = [CARDS[draw.choice(list(CARDS))] for _ in range(draw.randint(1, 8))]
        place["gpus"] = [{"index": at, "name": name, "vendor": vendor, "type": kind, "vram": total}
                         for at, (name, vendor, kind, total) in enumerate(cards)]
        place["unified_memory"] = False
        if draw.random() < 0.3:
            draw.shuffle(place["gpus"])


def odd_instances(draw, request):
    for made in request["instances"]:
        change = draw.randint(0, 5)
        if change == 0:
            made["gpu_type"] = draw.choice([None, "cuda", "rocm"])
        elif change == 1:
            made["gpu_indexes"], made["vram"] = [], {}
        elif change == 2:
            index = draw.randint(0, 14)
            made["gpu_indexes"].append(index)
            made["vram"][str(index)] = draw.randint(0, 40) * GIB
        elif change == 3:
            made["vram"] = {index: draw.choice([claim, claim * 3]) for index, claim in made["vram"].items()}


def odd_need(draw, request):
    made = request["model"]
    change = draw.randint(0, 4)
    if change == 0:
        made["env"] = {"GPUSTACK_MODEL_VRAM_CLAIM": str(draw.choice([0, 1, GIB, 3 * GIB + 1, 70 * GIB, 300 * GIB]))}
    elif change == 1:
        made["env"] = {"GPUSTACK_MODEL_VRAM_CLAIM": draw.choice(["all", "", "1e9", " 5000000000 ", "1_000"])}
    elif change == 2:
        made["env"] = {"GPUSTACK_SKIP_GPU_COUNT_CHECK": draw.choice(["1", "yes", "no", " True "])}
    elif change == 3:
        gpus = [gpu for place in request["workers"] for gpu in place["gpus"]] or [{"vram": 1}]
        made["weight_bytes"] = max(0, int((draw.choice(gpus)["vram"] * 0.9 * draw.randint(1, 4) - 2 * GIB) / 1.2)) + draw.randint(-1, 1)
    else:
        made["heads"], made["vocab_size"] = draw.choice([28, 40, 25, 7, None]), draw.choice([32000, 151669, 7, None])


ODDITIES = [odd_flags, odd_picks, odd_picks, odd_workers, odd_instances, odd_need]


def request(seed, number, op):
    draw = random.Random(f"placements/{seed}/{op}/{number}")
    workers = [worker(draw, at) for at in range(1, 1 + draw.choice([1, 2, 3, 4, 6, 10, 20]))]
    made = {"id": f"{op}-{seed}-{number:05}", "op": op, "model": model(draw, workers),
            "runner_gpu_types": draw.choice([None, ["cuda", "rocm"], ["cuda", "rocm"], ["cuda"]]),
            "workers": workers, "instances": instances(draw, workers)}
    if draw.random() < 0.5:
        for oddity in draw.sample(ODDITIES, draw.randint(1, 3)):
            oddity(draw, made)
    return made


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seed", default="1")
    asked.add_argument("--count", type=int, default=5000)
    asked.add_argument("--op", choices=["place", "evaluate"], default="place")
    asked = asked.parse_args()
    for number in range(1, asked.count + 1):
        print(json.dumps(request(asked.seed, number, asked.op), separators=(",", ":")))


if __name__ == "__main__":
    main()
