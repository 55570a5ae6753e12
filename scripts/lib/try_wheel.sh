#!/usr/bin/env bash
# Tries a wheel on the system that it is for, as somebody would use it: scripts/try_wheels starts this
# in a root of that system, in the checkout, with nothing of the network.
#
#   scripts/lib/try_wheel.sh PYTHON DEPENDENCIES PROGRAMS [PYTEST ARGUMENT]...
#
# DEPENDENCIES: a folder of other wheels. PROGRAMS: a folder with the programs consumer and c_test, for a
# root without a compiler; "" where they are compiled here.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 dependencies=$2 programs=$3
shift 3
environment=/opt/tried
work=$(mktemp -d)

say() { echo "== $*"; }

say "install: $("$python" -VV), $(ldd --version 2>&1 | head -1)"
rm -rf "$environment"
"$python" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --no-index --find-links build/wheels \
  --find-links "$dependencies" "tensorbus[cli]" numpy hypothesis pytest pytest-timeout pytest-xdist
"$environment/bin/python" -I -c 'import tensorbus; print(tensorbus._core.__file__)'

say "a message from one process to another, and the CMake package"
"$environment/bin/python" -I scripts/lib/smoke.py

say "hello.py of the README"
sed -n '/^# hello.py/,/^```/p' README.md | sed '/^```/d' >"$work/hello.py"
[[ -s $work/hello.py ]]
"$environment/bin/python" "$work/hello.py"

say "tensorbus doctor"
"$environment/bin/tensorbus" doctor

say "programs in C++ and C"
if [[ -z $programs ]]; then
  programs=$work
  # shellcheck disable=SC2046
  g++ -std=c++20 tests/consumer/main.cpp -o "$work/consumer" \
    $("$environment/bin/tensorbus-config" --cflags) $("$environment/bin/tensorbus-config" --libs)
  # shellcheck disable=SC2046
  gcc -std=gnu11 tests/c/interface_test.c -o "$work/c_test" -pthread \
    $("$environment/bin/tensorbus-config" --cflags) $("$environment/bin/tensorbus-config" --libs)
fi
libraries=$("$environment/bin/tensorbus-config" --libdir)
[[ $(LD_LIBRARY_PATH=$libraries "$programs/consumer") == $(cat VERSION) ]]
count=0
# The tests as CMake knows them; the others are second processes.
names=$(tr '\n' ' ' <cmake/TensorbusTests.cmake | grep -oE 'c_interface_test interface_test.c [a-z_ ]+' |
  cut -d ' ' -f 3-)
for name in $names; do
  LD_LIBRARY_PATH=$libraries timeout 300 "$programs/c_test" "$name" ||
    { echo "error: the C test $name" >&2 && exit 1; }
  count=$((count + 1))
done
echo "$count C tests passed"

say "Python tests"
export PATH=$environment/bin:$PATH PYTHONDONTWRITEBYTECODE=1
exec python -m pytest -n 2 --dist loadfile -m "not slow" -k "not in_docstrings" -p no:cacheprovider "$@"
