# shellcheck shell=bash
# Sourced after setup.sh and pythons.sh by scripts/wheels: builds wheels for one platform after the
# other. The library is compiled once for each platform, and the extension for each Python.

wheel_work=build/wheel-build # the sources as they are published, and what is built of them

# Of the source distribution: the files, and what the build back end says about the package.
prepare_wheels() { # prepare_wheels SDIST
  rm -rf "$wheel_work"
  mkdir -p "$wheel_work/metadata"
  tar --extract --strip-components=1 --one-top-level="$wheel_work/source" --file "$1"
  logged wheels-metadata python -c '
import os, sys
from pathlib import Path
metadata = Path("'"$wheel_work"'/metadata").resolve()
os.chdir("'"$wheel_work"'/source")
from scikit_build_core.build import prepare_metadata_for_build_wheel
prepare_metadata_for_build_wheel(str(metadata))'
  wheel_metadata=$(echo "$wheel_work"/metadata/tensorbus-*.dist-info)
  # The time of each file in the wheels.
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
}

machine_of() { # machine_of PLATFORM: x86_64 or aarch64
  if [[ $1 == *_aarch64 ]]; then echo aarch64; else echo x86_64; fi
}

# The C and C++ compiler of a platform: sets wheel_options, those of CMake.
setup_platform() { # setup_platform PLATFORM
  wheel_options=()
  local compiler=g++
  if [[ $1 == *_aarch64 ]]; then
    command -v aarch64-linux-gnu-g++ >/dev/null || install_debian_packages g++-aarch64-linux-gnu
    compiler=aarch64-linux-gnu-g++
    # Programs find the loader where it is on arm64, and not that of the emulation.
    wheel_options+=(-D CMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake"
      -D CMAKE_EXE_LINKER_FLAGS=)
  fi
  logged "wheels-$1-link" python scripts/lib/link_libraries.py "$compiler" "$wheel_work/$1/link"
  wheel_options+=(-D TENSORBUS_LINK_LIBRARIES="$PWD/$wheel_work/$1/link")
}

# What a wheel for this Python is called: cp311-cp311, cp313-cp313t. All from 3.12 on have one.
tag_of() { # tag_of VERSION
  local digits=${1//./}
  case $1 in
    *t) echo "cp${digits%t}-cp$digits" ;;
    3.10 | 3.11) echo "cp$digits-cp$digits" ;;
    *) echo cp312-abi3 ;;
  esac
}

# It knows the policies of the machine on which it runs, and reads the wheel alone.
auditwheel_for() { # auditwheel_for MACHINE ARGUMENT...
  python -c '
import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from auditwheel.main import main
sys.exit(main())' "$@"
}

build_wheel() { # build_wheel PLATFORM VERSION PYTHON: prints the wheel
  local platform=$1 version=$2 tag folder=$wheel_work/$1 stage stable=OFF name
  tag=$(tag_of "$version") name=wheel-$platform-$version stage=$PWD/$folder/$(tag_of "$version")
  if [[ $tag == *-abi3 ]]; then stable=ON; fi
  logged "$name-configure" cmake -S "$wheel_work/source" -B "$folder/build" -G Ninja \
    -U 'Python*' -U '_Python*' -U 'nanobind*' -U 'NB_*' "${wheel_options[@]}" \
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=10 \
    -D CMAKE_INSTALL_INCLUDEDIR=include -D CMAKE_INSTALL_LIBDIR=lib -D SKBUILD=ON \
    -D SKBUILD_DATA_DIR="$stage/$(basename "$wheel_metadata" .dist-info).data/data" \
    -D SKBUILD_SCRIPTS_DIR="$stage/$(basename "$wheel_metadata" .dist-info).data/scripts" \
    -D SKBUILD_SOABI="cpython-${version//./}-$(machine_of "$platform")-linux-gnu" \
    -D SKBUILD_SOSABI=abi3 -D TENSORBUS_BUILD_COMMAND=ON -D TENSORBUS_BUILD_PYTHON=ON \
    -D TENSORBUS_BUILD_STUB=OFF \
    -D TENSORBUS_STABLE_ABI=$stable -D Python_EXECUTABLE="$3" \
    -D Python_INCLUDE_DIR="$("$3" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
    -D nanobind_ROOT="$(python -m nanobind --cmake_dir)"
  logged "$name-build" cmake --build "$folder/build"
  rm -rf "$stage"
  mkdir -p "$stage"
  cp -r "$wheel_work/source/python/tensorbus" "$stage/"
  logged "$name-install" cmake --install "$folder/build" --strip --prefix "$stage/tensorbus"
  if grep -q TENSORBUS_KILL_POINT "$stage"/tensorbus/lib/libtensorbus.so.*; then
    die "the library for $tag-$platform has the hooks of the tests"
  fi
  logged "$name-pack" python scripts/lib/pack_wheel.py "$stage" "$wheel_metadata" \
    "$tag-linux_$(machine_of "$platform")" "$folder/dist"
  # It is only to look whether the name is deserved: nothing may be grafted or patched. It does not
  # see that the program finds the library of the wheel, once it is installed; that the extension
  # does, scripts/lib/smoke.py tells.
  rm -rf "$folder/audited"
  logged "$name-audit" auditwheel_for "$(machine_of "$platform")" repair --plat "$platform" \
    --only-plat --exclude libtensorbus.so.0 --wheel-dir "$folder/audited" \
    "$folder/dist/"*"-$tag-linux_"*.whl
  if [[ $stable == ON ]]; then
    logged "$name-abi3" python -m abi3audit --strict "$folder/audited/"*.whl
  fi
}
