# shellcheck shell=bash
# Sourced by the scripts: each function makes sure of one thing that they need, and does nothing
# where it is there already. Everything lands in .venv and build, apart from Debian packages.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p build/logs

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
step="setup"
log=""

say() { echo "-- $*"; }

die() {
  step=""
  echo "error: $*" >&2
  exit 1
}

at_exit() {
  local status=$1
  if [[ $status -eq 0 || -z $step ]]; then return; fi
  # CI keeps no files, so that the log has to be told there.
  if [[ -n $log && -n ${CI:-} ]]; then tail -n 60 "$log" >&2; fi
  echo "error: $step failed (exit $status)${log:+, see $log}" >&2
}
trap 'at_exit $?' EXIT

logged() { # logged NAME COMMAND...: runs it with its output in build/logs/NAME.log
  step="step $1"
  log=build/logs/$1.log
  shift
  "$@" >"$log" 2>&1 || return # also where the caller asks for the status, and set -e is off
  log=""
}

lock_setup() { # until unlock_setup, for scripts that are started at the same time
  exec 9>build/.setup.lock
  flock 9
}

unlock_setup() { exec 9>&-; }

install_debian_packages() {
  if [[ $# -eq 0 ]]; then return; fi
  command -v apt-get >/dev/null || die "this machine lacks what Debian calls: $*"
  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || die "run as root, or install sudo: apt-get install $*"
    as_root=(sudo)
  fi
  local apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -y -o DPkg::Lock::Timeout=300)
  say "installing Debian packages: $*"
  # A broken source that we do not need is no reason to stop: the installation tells.
  logged apt-update "${apt_get[@]}" update || true
  logged apt-install "${apt_get[@]}" install --no-install-recommends "$@"
}

has_header() { echo "#include <$1>" | g++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null; }

# setup_system [HEADER PACKAGE]...: a compiler, CLI11, Python with what builds and environments
# need, and the packages whose header is missing.
setup_system() {
  local missing=()
  python=$(python3 -c 'import os, sys; print(os.path.realpath(sys._base_executable))') || die "python3 is missing"
  local version
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "Python 3.10 or newer is needed, but python3 is $version"
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=("python$version-venv")
  [[ -f $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] ||
    missing+=("python$version-dev")
  command -v g++ >/dev/null || missing+=(g++)
  set -- CLI/CLI.hpp libcli11-dev "$@"
  while [[ $# -gt 0 ]]; do
    has_header "$1" || missing+=("$2")
    shift 2
  done
  install_debian_packages "${missing[@]}"
}

setup_pkg_config() { # with which the tests of the installed package compile
  command -v pkg-config >/dev/null || install_debian_packages pkgconf
}

# Another compiler, with another C++ library, for the tests that are skipped without: where they are
# one command away.
setup_clang() {
  if echo "#include <version>" | clang++ -stdlib=libc++ -fsyntax-only -x c++ - 2>/dev/null; then
    return
  fi
  if command -v apt-get >/dev/null && { [[ $EUID -eq 0 ]] || command -v sudo >/dev/null; }; then
    install_debian_packages clang libc++-dev libc++abi-dev
  fi
}

# OpenCV's core and Eigen, for the tests of their adapters, which are skipped without: where they are
# one command away.
setup_matrices() {
  if has_header eigen3/Eigen/Core && has_header opencv4/opencv2/opencv_modules.hpp; then return; fi
  if command -v apt-get >/dev/null && { [[ $EUID -eq 0 ]] || command -v sudo >/dev/null; }; then
    install_debian_packages libeigen3-dev libopencv-core-dev
  fi
}

# What makes the machines of the tests between machines, where it may: they need root.
setup_machines() {
  if [[ $EUID -ne 0 ]] || command -v ip >/dev/null || ! command -v apt-get >/dev/null; then return; fi
  install_debian_packages iproute2
}

# The browser in which the page of `tensorbus view` is tested.
setup_chromium() {
  if command -v chromium >/dev/null || ! command -v apt-get >/dev/null; then return; fi
  if [[ $EUID -eq 0 ]] || command -v sudo >/dev/null; then
    (install_debian_packages chromium) || say "chromium cannot be installed here: its tests are skipped"
  fi
}

# A torch that the machine has already is used as it is.
setup_venv() {
  local options=() wanted
  if "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; then
    options=(--system-site-packages)
  fi
  wanted="$PWD $("$python" -VV) $python ${options[*]}"
  if [[ $(cat .venv/stamps/venv 2>/dev/null) != "$wanted" ]]; then
    say "creating .venv: $("$python" -V) ${options[*]}"
    rm -rf .venv
    logged venv "$python" -m venv "${options[@]}" .venv
    mkdir .venv/stamps
    echo "$wanted" >.venv/stamps/venv
  fi
  export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv"
}

setup_requirements() { # setup_requirements NAME...: those of scripts/requirements-NAME.txt
  local name file
  for name in "$@"; do
    file=scripts/requirements-$name.txt
    if cmp -s "$file" ".venv/stamps/$name"; then continue; fi
    say "installing Python packages: $(sed '/^#/d; s/[=<>;].*//' "$file" | uniq | xargs)"
    logged "pip-$name" python -m pip install -r "$file"
    cp "$file" ".venv/stamps/$name"
  done
}

setup_torch() {
  python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' ||
    setup_requirements torch
}

package_sources() {
  find VERSION CMakeLists.txt pyproject.toml cmake include src python -type f \
    ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum
}

package_wheel() { compgen -G "$PWD/build/dist/*.whl"; }

# setup_package [PRESET]: the package itself, built again (incrementally) when its sources changed:
# as it is released, in build/wheel, or with the objects of the tests' build of a preset.
setup_package() {
  local preset=${1:-} wanted options=()
  if [[ -n $preset ]]; then options=("${package_of_tests[@]}" -C "build-dir=build/$preset"); fi
  wanted="$preset $(package_sources)"
  if package_wheel >/dev/null && [[ $(cat .venv/stamps/package 2>/dev/null) == "$wanted" ]]; then
    return
  fi
  say "building and installing the tensorbus package${preset:+ from build/$preset}"
  rm -rf .venv/stamps/package build/dist
  # First out with the old one: scikit-build-core imports what has a cmake.prefix entry point.
  logged package-uninstall python -m pip uninstall -y tensorbus
  logged package python -m pip wheel --no-build-isolation --no-deps --wheel-dir build/dist \
    "${options[@]}" .
  logged package-install python -m pip install --no-deps "$(package_wheel)"
  echo "$wanted" >.venv/stamps/package
}

# In which a tests' build differs from the released package: pyproject.toml has the others.
package_of_tests=(
  -C cmake.build-type=RelWithDebInfo
  -C cmake.define.TENSORBUS_BUILD_TESTS=ON
  -C cmake.define.TENSORBUS_KILL_POINTS=ON
  -C install.strip=true
)

sanitized=build/asan-package

# The C++ tests with sanitizers, and from the same build a second package, in a folder of its own.
build_sanitized() {
  build_with_python asan -D SKBUILD=ON -D CMAKE_INSTALL_LIBDIR=lib
  rm -rf "$sanitized"
  mkdir "$sanitized"
  cp -r python/tensorbus "$sanitized/"
  logged asan-package cmake --install build/asan --prefix "$sanitized/tensorbus"
}

# For the Python tests and the processes that they start.
use_sanitized_package() {
  export PYTHONPATH="$PWD/$sanitized"
  # Python is not built with it, so that it has to be there first; and it looks for the C++ library
  # when it starts, which Python does not have.
  local library
  library=$(g++ -print-file-name=libasan.so)
  export LD_PRELOAD="$library $(g++ -print-file-name=libstdc++.so.6)"
  # CPython and PyTorch leave memory behind when they end. SIGSEGV and SIGBUS are ours: what a write
  # to a received tensor ends in is tested, and a file that is cut short.
  export ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1
  export UBSAN_OPTIONS=print_stacktrace=1
  export PYTHONMALLOC=malloc
}

configure_preset() { # configure_preset PRESET [CMAKE OPTION]...
  local preset=$1
  shift
  logged "configure-$preset" cmake --preset "$preset" "$@"
}

build_preset() { # build_preset PRESET [CMAKE OPTION]...
  local preset=$1
  say "building build/$preset"
  configure_preset "$@"
  logged "build-$preset" cmake --build --preset "$preset"
}

build_with_python() { # build_with_python PRESET [CMAKE OPTION]...: tensorbus._core as well
  build_preset "$@" -D TENSORBUS_BUILD_PYTHON=ON \
    -D nanobind_ROOT="$(python -m nanobind --cmake_dir)"
}

# build_gtest PRESET TOOLCHAIN: GoogleTest for another machine or C library, by a file of cmake/.
build_gtest() {
  local folder=$PWD/build/$1-gtest
  if [[ -d $folder/installed ]]; then return; fi
  [[ -d /usr/src/googletest ]] || install_debian_packages googletest
  say "building GoogleTest in $folder"
  logged "configure-$1-gtest" cmake -S /usr/src/googletest -B "$folder" -G Ninja \
    -D CMAKE_TOOLCHAIN_FILE="$PWD/cmake/$2.cmake" -D CMAKE_BUILD_TYPE=Release \
    -D BUILD_GMOCK=OFF -D CMAKE_INSTALL_PREFIX="$folder/installed"
  logged "build-$1-gtest" cmake --build "$folder" --target install
}
