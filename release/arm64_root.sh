#!/bin/sh
# release/arm64_root.sh FOLDER: unpacks Debian's Python for ARM64, and what it needs, into the folder "root" there: what qemu-aarch64 -L
# takes, to run its usr/bin/python3. Nothing is installed, and the system's own lists of packages are not changed.
set -eu
mkdir -p "$1/apt/lists/partial" "$1/apt/archives/partial" "$1/root"
cd "$1"
apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Dir::State::Lists="$PWD/apt/lists" \
    -o Dir::State::status=/dev/null -o Dir::Cache="$PWD/apt" -o Debug::NoLocking=true "$@"
}
apt update
apt install --yes --download-only --no-install-recommends python3
for package in apt/archives/*.deb; do dpkg -x "$package" root; done
