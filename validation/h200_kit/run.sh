#!/usr/bin/env bash
# Runs the kit on this machine's GPU and writes one CSV: a row a constant and a row a kernel.
#     ./run.sh [FILE.csv [FOLDER]]
# Lock the clock before: sudo nvidia-smi -lgc 1500,1500 (undo: sudo nvidia-smi -rgc). A part that fails or hangs is named and left out.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
csv=${1:-kit.csv}
build=${2:-$here/build}
limit=${GTSIM_KIT_SECONDS:-340}   # of the whole run
each=20                           # of one part

[ -x "$build/micro" ] || { echo "error: $build/micro is not there; run build.sh first." >&2; exit 1; }
"$build/micro" --gpu >&2 || exit 1

rows=$(mktemp "$csv.XXXXXX") || exit 1
trap 'rm -f "$rows"' EXIT
# Ctrl-C ends the part that runs; what is finished is kept.
stopped=0
trap 'stopped=1' INT
failed=()
start=$SECONDS
"$build/micro" --header >"$rows"

part() {
  local name=$1 found
  shift
  [ "$stopped" = 0 ] || return 0
  if ((SECONDS - start + each > limit)); then failed+=("$name (no time left)"); return 0; fi
  printf '%s\n' "$name" >&2
  if found=$(timeout --foreground -k 5 "$each" "$@"); then printf '%s\n' "$found" >>"$rows"; else failed+=("$name"); fi
}
for name in $("$build/micro" --list); do part "$name" "$build/micro" "$name"; done
for source in "$build"/kernels/*.cu; do
  program=${source%.cu}
  [ ! -x "$program" ] || part "$(basename "$program")" "$program"
done

chmod 644 "$rows" && mv "$rows" "$csv"
echo "$csv: $(($(wc -l <"$csv") - 1)) rows in $((SECONDS - start)) s" >&2
if [ "$stopped" = 1 ]; then echo "interrupted; what was finished is in $csv" >&2; exit 130; fi
if [ ${#failed[@]} -gt 0 ]; then printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; fi
