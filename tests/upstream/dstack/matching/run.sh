#!/bin/sh
# Draws matching cases, asks the released packages and holds their answers against dryrack's.
#
#   tests/upstream/dstack/matching/run.sh [--cases 500] [--seed 1] [--keep FOLDER]
#
# The packages are installed into FOLDER, a temporary one if not given.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../venv.sh"
read_arguments 500 "$@"
"$python" "$here/draw.py" --seed "$seed" --cases "$cases" > "$work/cases.jsonl"
for version in 0.19.9 0.19.10 0.22.5; do
  "$(python_of "$version")" "$here/ask.py" < "$work/cases.jsonl" > "$work/answers-$version.jsonl" 2> "$work/errors-$version"
done
all_asked=0
"$python" "$here/../join.py" "$work/cases.jsonl" "$work"/answers-*.jsonl > "$work/records.jsonl" || all_asked=1
${DRYRACK:-dryrack} conform "$work/records.jsonl"
exit $all_asked
