#!/bin/sh
# release/newer_packages.sh [--needs] FOLDER SUITE PACKAGE...: unpacks packages of a newer suite of the system's distribution into FOLDER,
# with --needs also those that they need. SUITE may be empty: Debian 13 (trixie), Ubuntu 26.04 (resolute). Nothing is installed, and the
# system's own lists of packages are not changed.
set -eu
needs=no
if [ "$1" = --needs ]; then needs=yes; shift; fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
suite=$2
shift 2
which apt-get > /dev/null || { echo "there is no apt-get to download $* with" >&2; exit 1; }
for origin in Debian Ubuntu; do
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Origin: $origin" "Label: $origin" | head -n 1)
  test -z "$mirror" || break
done
test -n "$mirror" || { echo "the lists of Debian's packages are missing: apt-get update" >&2; exit 1; }
case $origin in
  Debian) suite=${suite:-trixie} components="main" keyring=debian-archive-keyring.gpg ;;
  Ubuntu) suite=${suite:-resolute} components="main universe" keyring=ubuntu-archive-keyring.gpg ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"
: > "$work/installed"
echo "deb [signed-by=/usr/share/keyrings/$keyring] $mirror $suite $components" > "$work/sources.list"
apt() {
  apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/installed" -o Dir::Cache="$work" -o Debug::NoLocking=true "$@"
}
apt update
if [ $needs = yes ]; then set -- $(apt --simulate --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'); fi
cd "$work/archives"
apt download "$@"
for package in *.deb; do dpkg -x "$package" "$folder"; done
