#!/bin/sh
# release/vulkan_sdk.sh FOLDER [SUITE]: unpacks packages that the module for Vulkan is built with: headers, the compiler of shaders, the
# loader's library. They are Debian 13's (trixie; on Ubuntu those of 26.04), since older compilers cannot compile the shaders for matrix
# cores and products of integers. Nothing is installed, and the system's own lists of packages are not changed.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
which apt-get > /dev/null || { echo "there is no apt-get; docs/devices.md says how to build without it" >&2; exit 1; }
for origin in Debian Ubuntu; do
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Origin: $origin" "Label: $origin" | head -n 1)
  test -z "$mirror" || break
done
test -n "$mirror" || { echo "the lists of Debian's packages are missing: apt-get update" >&2; exit 1; }
case $origin in
  Debian) suite=${2:-trixie} components="main" keyring=debian-archive-keyring.gpg ;;
  Ubuntu) suite=${2:-resolute} components="main universe" keyring=ubuntu-archive-keyring.gpg ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/$keyring] $mirror $suite $components" > "$work/sources.list"
apt() {
  apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o Debug::NoLocking=true "$@"
}
apt update
cd "$work/archives"
apt download libvulkan-dev libvulkan1 spirv-headers glslc libshaderc1 libstdc++6 libgcc-s1 libc6
for package in *.deb; do dpkg -x "$package" "$work/unpacked"; done
libraries=$(dirname "$work"/unpacked/usr/lib/*/libvulkan.so.1)
mkdir -p "$folder/bin" "$folder/lib" "$folder/share" "$folder/glslc"
cp -R "$work/unpacked/usr/include" "$folder"
cp -R "$work/unpacked/usr/share/cmake" "$folder/share"
cp -P "$libraries"/libvulkan.so* "$folder/lib"
# The compiler runs with its own C library, which is newer than that of the system may be.
cp "$libraries"/libc.so.* "$libraries"/libm.so.* "$libraries"/libstdc++.so.? "$libraries"/libgcc_s.so.* "$libraries"/libshaderc.so.? \
  "$work/unpacked/usr/bin/glslc" "$folder/glslc"
cp "$libraries"/ld-linux-*.so.? "$folder/glslc/loader"
cat > "$folder/bin/glslc" << 'END'
#!/bin/sh
own=${0%/*}/../glslc
exec "$own/loader" --library-path "$own" "$own/glslc" "$@"
END
chmod +x "$folder/bin/glslc"
"$folder/bin/glslc" --version > /dev/null
