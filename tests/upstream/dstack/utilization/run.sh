#!/bin/sh
# Draws jobs and the samples of their GPUs, asks the released packages when their check of utilization ends each, and holds
# that against dryrack's policy.
#
#   tests/upstream/dstack/utilization/run.sh [--cases 200] [--seed 1] [--keep FOLDER]
#
# The packages are installed into FOLDER, a temporary one if not given.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../venv.sh"
read_arguments 200 "$@"
"$python" "$here/draw.py" --seed "$seed" --cases "$cases" > "$work/jobs.jsonl"
for version in 0.19.10 0.22.5; do
  "$(python_of "$version")" "$here/ask.py" < "$work/jobs.jsonl" > "$work/ends-$version.jsonl" 2> "$work/errors-$version"
done
"$python" "$here/../join.py" "$work/jobs.jsonl" "$work/ends-0.19.10.jsonl" "$work/ends-0.22.5.jsonl" > "$work/utilization.jsonl"
${DRYRACK:-dryrack} conform "$work/utilization.jsonl"
