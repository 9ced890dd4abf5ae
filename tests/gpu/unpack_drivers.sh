#!/bin/sh
# tests/gpu/unpack_drivers.sh FOLDER [SUITE]: unpacks Mesa's drivers for GPUs, and libraries that answer them as the
# system's kernel does where there is such a GPU (drm-shim): everything but the computing is real. FOLDER/run PROCESSOR
# COMMAND... runs a program with them and with the C library that they need.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
"$(dirname "$0")/../../release/newer_packages.sh" --needs "$folder/packages" "${2:-}" \
  mesa-vulkan-drivers mesa-drm-shim libvulkan1
libraries=$(dirname "$folder"/packages/usr/lib/*/libvulkan.so.1)
ln -sfn "$libraries" "$folder/lib"
ln -sfn "$folder/packages/usr/share/vulkan/icd.d" "$folder/drivers"
ln -sf "$(echo "$libraries"/ld-linux-*.so.?)" "$folder/loader"
cat > "$folder/run" << 'END'
#!/bin/sh
own=$(cd "${0%/*}" && pwd)
processor=$1
shift
exec "$own/loader" --library-path "$own/lib" --preload "$own/lib/lib${processor}_noop_drm_shim.so" "$@"
END
chmod +x "$folder/run"
