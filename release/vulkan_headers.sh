#!/bin/sh
# release/vulkan_headers.sh FOLDER: unpacks Vulkan's and SPIR-V's headers of Debian 13 (trixie), which are files for any architecture, into
# the folder: llama.cpp needs newer ones than Debian 12 has. Nothing is installed, and the system's own lists of packages are not changed.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd) suite=trixie
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
test -n "$mirror" || { echo "the lists of Debian's packages are missing: apt-get update" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$work/sources.list"
apt() {
  apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o Debug::NoLocking=true "$@"
}
apt update
cd "$work/archives"
apt download libvulkan-dev spirv-headers
for package in *.deb; do dpkg -x "$package" "$work/unpacked"; done
cp -R "$work/unpacked/usr/include" "$work/unpacked/usr/share" "$folder"
