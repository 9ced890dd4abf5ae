#!/bin/sh
# release/debian_python.sh FOLDER SUITE ARCHITECTURE: unpacks a Python of Debian (bookworm: 3.11, trixie: 3.13, sid:
# 3.14), its headers, what it needs, and the C library musl, into the folder: a system with nothing else, for chroot or
# qemu-aarch64 -L. Nothing is installed, and the system's own lists of packages are not changed.
set -eu
folder=$1 suite=$2 architecture=$3
case $suite in
  bookworm) python=python3.11 ;;
  trixie) python=python3.13 ;;
  sid) python=python3.14 ;;
esac
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
  head -n 1)
test -n "$mirror" || { echo "the lists of Debian's packages are missing: apt-get update" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$folder"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$work/sources.list"
apt() {
  apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User=root \
    -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" \
    -o Dir::State::status=/dev/null -o Dir::Cache="$work" -o Debug::NoLocking=true "$@"
}
apt update
# numpy needs libstdc++; our wheel does not.
apt install --yes --download-only --no-install-recommends base-files $python $python-venv lib$python-dev libstdc++6 musl
for package in "$work"/archives/*.deb; do dpkg -x "$package" "$folder"; done
# As the package's own script would have done; pip wants it, even without a network.
mkdir -p "$folder/etc/ssl/certs"
cat "$folder"/usr/share/ca-certificates/mozilla/*.crt > "$folder/etc/ssl/certs/ca-certificates.crt"
