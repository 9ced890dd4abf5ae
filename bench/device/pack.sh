#!/usr/bin/env bash
# Puts what bench/device/measure.sh needs beside the tree into one file of less than 64 MiB, for a machine that has a
# GPU but nothing to build with: bench/device/pack.sh [OUT.tar.xz]. Before it: cmake --preset default -DSPECDEC_BENCH=ON
# -DSPECDEC_PEERS=ON, -DSPECDEC_VULKAN=ON (make vulkan) and, with nvcc, -DSPECDEC_CUDA=ON
# -DSPECDEC_CUDA_ARCHITECTURES=90 (an H100's; nvidia-smi --query-gpu=compute_cap), then build.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/device.tar.xz}
build=${SPECDEC_BUILD:-build/default}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir -p "$folder/bench/peers" "$folder/tests/gpu" "$folder/package/specdec_native"
cp "$build/specdec" "$folder"
cp "$build"/bench/bench_passes "$build"/bench/bench_llama_quantize "$folder/bench"
for module in vulkan cuda; do
  if [ -e "$build/specdec-$module.so" ]; then
    cp "$build/specdec-$module.so" "$folder"
  else
    echo "without the module for $module"
  fi
done
for program in llama-server llama-bench; do
  if [ -e "$build/bench/peers/$program" ]; then
    cp "$build/bench/peers/$program" "$folder/bench/peers"
  else
    echo "without $program"
  fi
done
if compgen -G "$build/tests/gpu/*.so" > /dev/null; then cp "$build"/tests/gpu/*.so "$folder/tests/gpu"; fi
cp -R python/specdec_native/. "$folder/package/specdec_native"
rm -f "$folder"/package/specdec_native/specdec-*

# The Python that the extension was built for, without what only developers need, and the packages that tests/gpu and
# bench import.
python=.venv/bin/python
base=$($python -c 'import sys; print(sys.base_prefix)')
library=$($python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
packages=$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
version=$(basename "$library")
mkdir -p "$folder/python/bin" "$folder/python/lib"
cp -L "$base/bin/$version" "$folder/python/bin/python3"
cp -R "$library" "$folder/python/lib"
cp -L "$base"/lib/lib"$version".so* "$folder/python/lib" 2> /dev/null || true
to=$folder/python/lib/$version/site-packages
rm -rf "$to" "$folder/python/lib/$version"/{test,idlelib,ensurepip,lib2to3,tkinter,turtledemo,pydoc_data} \
  "$folder/python/lib/$version"/config-*
mkdir "$to"
for package in numpy numpy.libs gguf yaml tqdm requests urllib3 idna certifi charset_normalizer pytest _pytest pluggy \
  iniconfig packaging pygments hypothesis _hypothesis_pytestplugin.py sortedcontainers attr attrs xdist execnet \
  typing_extensions.py; do
  if [ -e "$packages/$package" ]; then cp -R "$packages/$package" "$to"; fi
done
for information in pytest pytest_xdist pluggy numpy gguf; do cp -R "$packages/$information"-*.dist-info "$to"; done
find "$folder" \( -name __pycache__ -o -path '*/numpy/*/tests' -o -path '*/numpy/f2py' \) -prune -exec rm -rf {} +
find "$folder" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -u+x \) \
  -exec strip --strip-unneeded {} + 2> /dev/null || true

tar -cf - -C "$folder" . | xz -T0 -9 > "$out"
size=$(wc -c < "$out")
printf '%s: %d.%d MiB\n' "$out" $((size >> 20)) $(((size & 1048575) * 10 >> 20))
if [ "$size" -ge $((64 << 20)) ]; then
  echo "more than 64 MiB: build the module for CUDA for one architecture, or leave llama.cpp's programs out"
  exit 1
fi
