#!/bin/sh
# release/newer_packages.sh [--needs|--source] FOLDER SUITE PACKAGE...: unpacks packages of a newer suite of the
# system's distribution into FOLDER, with --needs also those that they need, with --source their source before the
# distribution's patches. SUITE may be empty: Debian 13 (trixie), Ubuntu 26.04 (resolute). Nothing is installed, and the
# system's own lists of packages are not changed.
set -eu
mode=packages
case $1 in --*) mode=$1; shift ;; esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
suite=$2
shift 2
which apt-get > /dev/null || { echo "there is no apt-get to download $* with" >&2; exit 1; }
for origin in Debian Ubuntu; do
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Origin: $origin" "Label: $origin" |
    head -n 1)
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
type=deb
test "$mode" != --source || type=deb-src
echo "$type [signed-by=/usr/share/keyrings/$keyring] $mirror $suite $components" > "$work/sources.list"
apt() {
  apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/installed" \
    -o Dir::Cache="$work" -o Debug::NoLocking=true "$@"
}
apt update
if [ "$mode" = --needs ]; then
  set -- $(apt --simulate --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
fi
cd "$work/archives"
if [ "$mode" = --source ]; then
  apt --download-only source "$@"
  for archive in *.orig.tar.[gx]z; do tar -xf "$archive" -C "$folder" --strip-components 1; done
  exit
fi
apt download "$@"
for package in *.deb; do dpkg -x "$package" "$folder"; done
