# Read by the scripts beside it. Installs dstack releases with pip, about 250 MB each; what is there already is used as it is.
# Needs Python 3.11.

# `read_arguments DEFAULT_CASES "$@"` sets `cases`, `seed`, `work` and `python`, and leaves `work` to be removed at the end
# unless it is to be kept.
read_arguments() {
  cases="$1" seed=1 keep=
  shift
  while [ $# -gt 0 ]; do
    case "$1" in
      --cases) cases="$2"; shift 2 ;;
      --seed) seed="$2"; shift 2 ;;
      --keep) keep="$2"; shift 2 ;;
      *) echo "run.sh: what is $1?" >&2; exit 2 ;;
    esac
  done
  work="${keep:-$(mktemp -d)}"
  mkdir -p "$work"
  python="${PYTHON:-python3.11}"
  [ -n "$keep" ] || trap 'rm -r "$work"' EXIT
}

# `python_of VERSION` says which Python has that release of dstack.
python_of() {
  venv="$work/v-$1"
  if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/pip" install -q "dstack[server]==$1"
  fi
  echo "$venv/bin/python"
}
