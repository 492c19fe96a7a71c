"""Joins cases and the answers of each version into records. A case that a version could not be asked fails all.

    python3 join.py cases.jsonl answers-0.19.9.jsonl answers-0.22.5.jsonl > records.jsonl
"""

import json
import sys

answers, faults = {}, []
for path in sys.argv[2:]:
    for line in open(path):
        found = json.loads(line)
        if "fault" in found:
            faults.append((path, found["id"], found["fault"]))
        else:
            answers.setdefault(found["id"], {})[found["version"]] = found["answer"]
for fault in faults:
    print(*fault, file=sys.stderr)
for line in open(sys.argv[1]):
    case = json.loads(line)
    missing = len(sys.argv) - 2 - len(answers.get(case["id"], {}))
    if missing:
        print(f"{case['id']} lacks {missing} answers", file=sys.stderr)
        faults.append(case["id"])
        continue
    print(json.dumps({**case, "answer": answers[case["id"]]}))
sys.exit(1 if faults else 0)
