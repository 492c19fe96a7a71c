"""The sequences: what is there, and what users and workers do when. Times in milliseconds.

What users do comes at whole seconds that no timer falls on, and a computation lasts a number of milliseconds that does not
add up to a whole second within a sequence, so that what falls on one instant was caused by one thing.
"""
import random

GIB = 1 << 30
S, MIN = 1000, 60_000
# What a worker says of an instance, so long after it was scheduled there.
PROMPT, SLOW, NEVER, FAILING = (
    [(1_400, "initializing"), (21_600, "running")],
    [(150_400, "initializing"), (170_600, "running")],
    [],
    [(1_400, "initializing"), (8_600, "error")],
)
QUICK, USUAL, LONG, ENDLESS = 2_113, 7_313, 31_117, 131_517


def worker(name, *gpus, reserved_vram=0):
    return {"name": name, "gpus": [gib * GIB for gib in gpus], "ram": 256 * GIB, "reserved_ram": 2 * GIB, "reserved_vram": reserved_vram}


def model(name, replicas=1, weights=8, computes_ms=USUAL, course=PROMPT, strategy="spread", selector=None, categories=("llm",)):
    return {"name": name, "replicas": replicas, "weights": weights * GIB, "heads": 32, "categories": list(categories),
            "strategy": strategy, "selector": selector or {"os": "linux"}, "computes_ms": computes_ms, "course": course}


def case(name, workers, models, events, until=12 * MIN):
    return {"name": name, "workers": workers, "models": models, "events": events, "until": until}


def only(name):
    return {"os": "linux", "worker-name": name}


def by_hand():
    two = [worker("alpha", 24, 24), worker("beta", 24, 24)]
    five = [model(f"m{number}") for number in range(5)]
    yield case("a model is created and runs", two, [model("chat", 2)], [(11 * S, "create", "chat")])
    batch = [(at + number * 3, "create", f"m{number}") for at in [11 * S] for number in range(5)]
    batch += [(14 * S + number * 3, "scale", f"m{number}", 0) for number in range(5)]
    batch += [(17 * S + number * 3, "scale", f"m{number}", 1) for number in range(5)]
    batch += [(22 * S + number * 3, "scale", f"m{number}", 0) for number in range(5)]
    yield case("models are started and stopped in a batch, twice, then one is started", two, five + [model("last")], batch + [(26 * S, "create", "last")])
    yield case("a worker with one GPU never picks its instance up", [worker("alpha", 24)], [model("chat", course=NEVER)], [(11 * S, "create", "chat")], 20 * MIN)
    yield case("a worker with two GPUs never picks its instance up", [worker("alpha", 24, 24)], [model("chat", course=NEVER)], [(11 * S, "create", "chat")], 20 * MIN)
    yield case("of two workers none picks its instances up", two, [model("chat", 3, course=NEVER), model("pack", 1, course=NEVER, strategy="binpack")],
               [(11 * S, "create", "chat"), (13 * S, "create", "pack")], 20 * MIN)
    yield case("a row id is given again while an entry of its former row waits", two,
               [model("left", selector=only("alpha")), model("right", selector=only("beta")), model("first", computes_ms=LONG)],
               [(11 * S, "create", "first"), (12 * S, "create", "left"), (14 * S, "scale", "left", 0), (16 * S, "create", "right")])
    yield case("a row id is given again while its former row is computed", two,
               [model("left", selector=only("alpha"), computes_ms=LONG), model("right", selector=only("beta"))],
               [(11 * S, "create", "left"), (14 * S, "scale", "left", 0), (16 * S, "create", "right")])
    yield case("a row id is given again while its former row is computed, and does not fit", two,
               [model("left", weights=90, computes_ms=LONG), model("right", selector=only("beta"))],
               [(11 * S, "create", "left"), (14 * S, "scale", "left", 0), (16 * S, "create", "right")])
    yield case("an instance is analysed again while it is computed", two, [model("chat", 3, computes_ms=ENDLESS), model("other")],
               [(11 * S, "create", "chat"), (202 * S, "create", "other")], 25 * MIN)
    yield case("an instance is analysed again while it is computed, and another takes its place", [worker("alpha", 24, 24), worker("beta", 24)],
               [model("chat", 3, computes_ms=ENDLESS), model("other", computes_ms=LONG)],
               [(11 * S, "create", "chat"), (202 * S, "create", "other")], 25 * MIN)
    yield case("an instance is deleted while it is computed", two, [model("chat", computes_ms=LONG), model("other")],
               [(11 * S, "create", "chat"), (22 * S, "scale", "chat", 0), (27 * S, "create", "other")])
    yield case("an instance that fits nowhere is deleted while it is computed", two, [model("chat", weights=90, computes_ms=LONG), model("other")],
               [(11 * S, "create", "chat"), (22 * S, "scale", "chat", 0), (27 * S, "create", "other")])
    yield case("a worker falls silent while an instance is computed for it", [worker("alpha", 24, 24, 24), worker("beta", 24)], [model("chat", computes_ms=ENDLESS)],
               [(2 * S, "silence", "alpha"), (11 * S, "create", "chat"), (401 * S, "back", "alpha")], 25 * MIN)
    yield case("a worker falls silent, and its instances are made again elsewhere", two, [model("chat", 2), model("other")],
               [(11 * S, "create", "chat"), (12 * S, "create", "other"), (122 * S, "silence", "alpha"), (413 * S, "back", "alpha")], 15 * MIN)
    yield case("both workers fall silent one after the other", two, [model("chat", 3)],
               [(11 * S, "create", "chat"), (122 * S, "silence", "alpha"), (263 * S, "silence", "beta"), (402 * S, "back", "alpha"), (533 * S, "back", "beta")], 20 * MIN)
    yield case("a worker flaps within its grace period and beyond it", two, [model("chat", 3)],
               [(11 * S, "create", "chat"), (61 * S, "silence", "alpha"), (147 * S, "back", "alpha"), (181 * S, "silence", "alpha"), (278 * S, "back", "alpha"),
                (301 * S, "silence", "alpha"), (422 * S, "back", "alpha")], 15 * MIN)
    yield case("a worker is cut off for a while, and then for good", two, [model("chat", 3)],
               [(11 * S, "create", "chat"), (61 * S, "cut_off", "alpha"), (122 * S, "back", "alpha"), (181 * S, "cut_off", "alpha")], 15 * MIN)
    yield case("more and fewer replicas", two, [model("chat", 1), model("other", 1)],
               [(11 * S, "create", "chat"), (12 * S, "create", "other"), (61 * S, "scale", "chat", 3), (122 * S, "scale", "chat", 1), (183 * S, "scale", "chat", 2), (188 * S, "scale", "chat", 1)])
    yield case("fewer replicas than run, on workers of which one is not ready", [worker("alpha", 24, 24), worker("beta", 24), worker("gamma", 24)], [model("chat", 4)],
               [(11 * S, "create", "chat"), (122 * S, "silence", "beta"), (172 * S, "scale", "chat", 2)])
    yield case("fewer replicas of a model that fails to start", two, [model("chat", 2, course=FAILING), model("other", 1)],
               [(11 * S, "create", "other"), (14 * S, "create", "chat"), (122 * S, "scale", "chat", 1)])
    yield case("fewer replicas while some are scheduled and some fit nowhere", two, [model("chat", 6, course=SLOW)],
               [(11 * S, "create", "chat"), (63 * S, "scale", "chat", 3), (97 * S, "scale", "chat", 1)])
    yield case("fewer replicas of a packed model", [worker("alpha", 24, 24, 24), worker("beta", 48)],
               [model("chat", 3, strategy="binpack", weights=2, categories=["embedding"]), model("other", 1, weights=9, categories=["reranker"])],
               [(11 * S, "create", "chat"), (13 * S, "create", "other"), (122 * S, "scale", "chat", 2), (131 * S, "scale", "chat", 1)])
    yield case("what fits nowhere is tried again at a scan, and when anything is created", [worker("alpha", 24)], [model("chat", 1), model("huge", 1, weights=90), model("small", 1, weights=1)],
               [(11 * S, "create", "chat"), (21 * S, "create", "huge"), (94 * S, "create", "small"), (266 * S, "scale", "chat", 0)])
    yield case("an instance fails to start again and again", [worker("alpha", 24)], [model("chat", course=FAILING)], [(11 * S, "create", "chat")], 25 * MIN)
    yield case("a worker with an instance in error falls silent and comes back", two, [model("chat", course=FAILING)],
               [(11 * S, "create", "chat"), (62 * S, "silence", "alpha"), (93 * S, "back", "alpha"), (122 * S, "silence", "alpha"), (263 * S, "back", "alpha")], 15 * MIN)
    yield case("a stuck instance's worker falls silent and comes back", [worker("alpha", 24)], [model("chat", course=NEVER)],
               [(11 * S, "create", "chat"), (422 * S, "silence", "alpha"), (603 * S, "back", "alpha")], 20 * MIN)
    yield case("a slow worker picks its instance up while it is analysed again", two, [model("chat", 2, computes_ms=LONG, course=[(186_400, "initializing"), (220_600, "running")])],
               [(11 * S, "create", "chat")], 15 * MIN)


def drawn(seed):
    """Small fleets, few models, everything at once."""
    draw = random.Random(seed)
    workers = [worker(name, *[draw.choice([24, 24, 48])] * draw.randint(1, 3), reserved_vram=draw.choice([0, GIB])) for name in ["alpha", "beta", "gamma"][: draw.randint(1, 3)]]
    models = []
    for number in range(draw.randint(2, 6)):
        category = draw.choice(["llm", "llm", "embedding", "reranker"])
        models.append(
            model(f"m{number}", draw.randint(1, 3), draw.choice([1, 3, 8, 16, 30]), draw.choice([QUICK, USUAL, LONG, ENDLESS]),
                  draw.choice([PROMPT, PROMPT, SLOW, NEVER, FAILING]), draw.choice(["spread", "binpack"]),
                  draw.choice([None, None, only(draw.choice(workers)["name"])]), [category])
        )
    events, silent = [], {}
    at = 11 * S
    for spec in models:
        events.append((at, "create", spec["name"]))
        at += draw.choice([1, 4, 33, 121]) * S
    at = 16 * S
    for _ in range(draw.randint(6, 14)):
        at += draw.choice([3, 11, 47, 130]) * S
        at += {0: S, 5: S}.get(at // S % 10, 0)
        known = [event[2] for event in events if event[1] == "create" and event[0] < at]
        name = draw.choice(workers)["name"]
        if draw.random() < 0.55 and known:
            events.append((at, "scale", draw.choice(known), draw.choice([0, 1, 1, 2, 3])))
        elif silent.pop(name, False):
            events.append((at, "back", name))
        else:
            silent[name] = True
            events.append((at, draw.choice(["silence", "cut_off"]), name))
    events.sort(key=lambda event: event[0])
    return case(f"drawn {seed}", workers, models, [[when + 7 * index, *rest] for index, (when, *rest) in enumerate(events)], 20 * MIN)


def all_cases():
    yield from by_hand()
    for seed in range(24):
        yield drawn(seed)
