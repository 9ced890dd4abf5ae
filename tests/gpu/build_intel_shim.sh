#!/bin/sh
# tests/gpu/build_intel_shim.sh FOLDER [SUITE]: adds to the FOLDER of unpack_drivers.sh the library that answers Mesa's
# driver for Intel's GPUs as the kernel does, which Debian has as source only. Needs its packages bison, flex,
# pkg-config, libdrm-dev, libexpat1-dev and zlib1g-dev, and ninja; takes three minutes.
set -eu
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project=$(dirname "$0")/../..
"$project/release/newer_packages.sh" --source "$work/mesa" "${2:-}" mesa
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$project/requirements/mesa.txt"
export PATH="$work/venv/bin:$PATH"
cd "$work/mesa"
build() {
  meson setup build --buildtype release -Dtools=drm-shim,intel -Dvulkan-drivers= -Dgallium-drivers= -Dplatforms= \
    -Dllvm=disabled -Dglx=disabled -Degl=disabled -Dgbm=disabled -Dopengl=false -Dgles1=disabled -Dgles2=disabled &&
    ninja -C build src/intel/tools/libintel_noop_drm_shim.so
}
build > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cp build/src/intel/tools/libintel_noop_drm_shim.so "$folder/lib"
