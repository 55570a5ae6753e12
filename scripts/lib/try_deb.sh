#!/usr/bin/env bash
# What scripts/try_deb runs in its Debian, which has no Python.
#
#   try_deb.sh VERSION
set -euo pipefail
cd "$(mktemp -d)"
export TENSORBUS_DOMAIN=$PWD/domain

say() { echo "== $*"; }

say "there is no Python"
if command -v python3; then exit 1; fi

say "install"
# A folder of packages: apt takes what depends on what from it.
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -y install /debs/*.deb >install.log || { cat install.log && exit 1; }
dpkg --list 'libtensorbus*' tensorbus-tools | grep '^ii'
[[ $(tensorbus --version) == "tensorbus $1" ]]

say "programs, with CMake and with pkg-config"
cmake -S /examples/cpp -B cpp -DCMAKE_BUILD_TYPE=Release >cmake.log
cmake --build cpp --parallel "$(nproc)" >build.log
# shellcheck disable=SC2046
g++ -std=c++20 /examples/cpp/subscriber.cpp -o subscriber $(pkg-config --cflags --libs tensorbus)

say "a camera, a sink, a recorder, and what they do"
./cpp/publisher &
publisher=$!
until tensorbus topic info hello >info 2>/dev/null; do :; done
grep "publisher" info
tensorbus topic list
tensorbus topic echo hello --once
tensorbus topic hz hello --count 1 --window 2
tensorbus inspect --json >inspected
tensorbus memory
tensorbus record hello --seconds 3 -o run.mcap
kill "$publisher"
wait "$publisher" || true
tensorbus recording info run.mcap

say "the recording, replayed to a subscriber"
timeout 60 ./subscriber >received &
subscriber=$!
tensorbus play run.mcap --wait 1 </dev/null
kill "$subscriber" || true
wait "$subscriber" || true
[[ -s received ]]
head -n 2 received

say "a service"
./cpp/mean_service &
service=$!
until tensorbus service list | grep -q mean; do :; done
tensorbus service list
./cpp/mean_client
tensorbus node list
kill "$service"
wait "$service" || true

say "completion, the unit and the copyright are where Debian has them"
ls /usr/share/bash-completion/completions/tensorbus /lib/systemd/system/tensorbus-record@.service \
  /usr/share/doc/{libtensorbus0,libtensorbus-dev,tensorbus-tools}/copyright

say "what needs Python says so"
if tensorbus top 2>why; then exit 1; fi
grep "needs the Python package" why

say "remove"
dpkg --listfiles libtensorbus0 libtensorbus-dev tensorbus-tools >installed
apt-get -qq -y purge libtensorbus0 libtensorbus-dev tensorbus-tools >remove.log
while read -r file; do
  [[ -d $file || ! -e $file ]] || { echo "$file is left" && exit 1; }
done <installed
say "ok"
