#!/usr/bin/env bash
# Builds the kit into build/ (or the folder given): microbenchmarks, and the kernels of cases.toml as TileLang compiles them.
#     ./build.sh [FOLDER]
# Needs nvcc for the microbenchmarks; python with gtsim[tilelang] besides for the kernels. GTSIM_KIT_ONLY=micro|kernels builds a part.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/build}
nvcc=${NVCC:-nvcc}
only=${GTSIM_KIT_ONLY:-all}
jobs=${JOBS:-$(nproc)}
arch=(-gencode arch=compute_90a,code=sm_90a)

command -v "$nvcc" >/dev/null || { echo "error: nvcc is not on the PATH; name it in NVCC." >&2; exit 1; }
mkdir -p "$out/objects" "$out/kernels"

# Warnings of our own code are errors.
own=("$nvcc" -std=c++17 -O3 "${arch[@]}" -Werror all-warnings -Xcompiler -Wall,-Wextra)
compile() { printf '%q ' "${own[@]}" -c "$1" -o "$out/objects/$2.o"; echo; }
{
  compile "$here/host/kit.cu" kit
  [ "$only" = micro ] || compile "$here/host/kernel.cu" kernel
  [ "$only" = kernels ] || for file in "$here"/micro/*.cu; do compile "$file" "micro_$(basename "$file" .cu)"; done
} | xargs -P "$jobs" -I{} sh -c '{}'

if [ "$only" != kernels ]; then
  "$nvcc" "${arch[@]}" "$out"/objects/kit.o "$out"/objects/micro_*.o -o "$out/micro"
  echo "$out/micro: $("$out/micro" --list | wc -l) microbenchmarks"
fi
[ "$only" != micro ] || exit 0

python=${PYTHON:-python3}
if ! "$python" -c 'import gtsim, tilelang' 2>/dev/null; then
  echo "no kernels: $python has no gtsim with tilelang (pip install 'gtsim[tilelang]'); name another in PYTHON." >&2
  exit 0
fi
"$python" "$here/generate.py" "$out/kernels"
includes=()
while read -r folder; do includes+=("-isystem" "$folder"); done <"$out/kernels/includes.txt"
# Suppressed: what TileLang's headers and its hexadecimal constants cause (unused variables, inexact floats, ignored annotations).
for source in "$out"/kernels/*.cu; do
  name=$(basename "$source" .cu)
  printf '%q ' "$nvcc" -std=c++20 -O3 "${arch[@]}" -diag-suppress 177,1046,20012 "${includes[@]}" -I"$here/host" \
    "$source" "$out/objects/kit.o" "$out/objects/kernel.o" -o "$out/kernels/$name"
  echo
done | xargs -P "$jobs" -I{} sh -c '{}'
for source in "$out"/kernels/*.cu; do echo "${source%.cu}"; done
