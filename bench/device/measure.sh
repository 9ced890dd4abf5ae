#!/usr/bin/env bash
# Measures this machine's GPUs in less than nine minutes, without a network, and prints tables: bench/device/measure.sh
# --help.
#   bench/device/measure.sh [ARCHIVE.tar.xz] [OPTION ...]
# ARCHIVE: programs, modules and a Python with its packages, which bench/device/pack.sh made on a machine that can
# build; it is unpacked into build/device. Without it, the build of this tree (SPECDEC_BUILD, default build/default) and
# .venv are used.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ "${1:-}" == *.tar.xz ]]; then
  mkdir -p build/device
  tar -xJf "$1" -C build/device
  shift
  export SPECDEC_BUILD=$PWD/build/device
fi
build=${SPECDEC_BUILD:-$PWD/build/default}
python=python3
if [ -x "$build/python/bin/python3" ]; then
  python=$build/python/bin/python3
  export PYTHONHOME=$build/python
  export LD_LIBRARY_PATH=$build/python/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
elif [ -x .venv/bin/python ]; then
  python=.venv/bin/python
fi
export SPECDEC_DEVICE_MODULES=${SPECDEC_DEVICE_MODULES:-$build} SPECDEC_BINARY=$build/specdec
# The package, its extension from the archive, and the tests.
export PYTHONPATH=$PWD:$build/package:$PWD/python
exec "$python" -m bench.device.measure --build "$build" "$@"
