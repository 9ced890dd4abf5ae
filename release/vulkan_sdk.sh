#!/bin/sh
# release/vulkan_sdk.sh FOLDER [SUITE]: unpacks packages that the module for Vulkan is built with: headers, the compiler
# of shaders, the loader's library. They are of a newer suite than the system may be, since older compilers cannot
# compile the shaders for matrix cores and products of integers.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$(dirname "$0")/newer_packages.sh" "$work" "${2:-}" \
  libvulkan-dev libvulkan1 spirv-headers glslc libshaderc1 libstdc++6 libgcc-s1 libc6
libraries=$(dirname "$work"/usr/lib/*/libvulkan.so.1)
mkdir -p "$folder/bin" "$folder/lib" "$folder/share" "$folder/glslc"
cp -R "$work/usr/include" "$folder"
cp -R "$work/usr/share/cmake" "$folder/share"
cp -P "$libraries"/libvulkan.so* "$folder/lib"
# The compiler runs with its own C library, which is newer than that of the system may be.
cp "$libraries"/libc.so.* "$libraries"/libm.so.* "$libraries"/libstdc++.so.? "$libraries"/libgcc_s.so.* \
  "$libraries"/libshaderc.so.? "$work/usr/bin/glslc" "$folder/glslc"
cp "$libraries"/ld-linux-*.so.? "$folder/glslc/loader"
cat > "$folder/bin/glslc" << 'END'
#!/bin/sh
own=${0%/*}/../glslc
exec "$own/loader" --library-path "$own" "$own/glslc" "$@"
END
chmod +x "$folder/bin/glslc"
"$folder/bin/glslc" --version > /dev/null
