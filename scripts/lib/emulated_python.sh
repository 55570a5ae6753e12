# shellcheck shell=bash
# Sourced after setup.sh, debian.sh and emulated.sh by scripts/arm64: the Python of a Debian for
# arm64, in build/arm64-python, and tests under it. pip chooses the wheels for it from here: there
# only the tests run.

arm64_python=build/arm64-python
arm64_root=$arm64_python/root
arm64_package=/tensorbus/$arm64_python/package # of the checkout, as the root has it
arm64_packages=(numpy msgspec hypothesis pytest pytest-timeout pytest-xdist)
arm64_tests=(domain topics tensors messages sharing queues)

# Tests that qemu-user cannot run, and why, as pytest's --deselect has them.
python_not_emulated=(
  # It bounds the address space (RLIMIT_AS), which qemu-user does not pass on.
  topics/test_sample_copy.py::test_a_copy_that_there_is_no_memory_for_is_a_memory_error
  # It needs another user: in the namespace of `emulated` there is root alone.
  domain/test_domains.py::test_a_domain_of_another_user_is_refused
  # They do so much that qemu-user needs minutes for it, or somebody gives up meanwhile.
  messages/test_message_definitions.py::test_every_type_fits_itself_whatever_the_order_of_its_fields
  queues/test_queue.py::test_twenty_thousand_items_need_a_few_descriptors
)

# No program of the root has to run for this: what the packages would set up, nothing here needs.
make_arm64_root() {
  local uri codename package
  if [[ -f $arm64_root/made ]]; then return; fi
  [[ $EUID -eq 0 ]] || die "a Debian of its own needs root: run as root, or leave out --python"
  command -v debootstrap >/dev/null || install_debian_packages debootstrap
  read -r uri codename < <(debian_registry) || die "apt-get knows no registry of this release"
  say "debootstrap of $codename for arm64 from $uri"
  rm -rf --one-file-system "$arm64_root"
  mkdir -p "$arm64_root"
  logged arm64-debootstrap debootstrap --foreign --arch=arm64 --variant=minbase \
    --include=python3,python3-dev,python3-venv "$codename" "$arm64_root" "$uri"
  step="unpacking $arm64_root"
  for package in "$arm64_root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --directory "$arm64_root"
  done
  rm -r "$arm64_root"/var/cache/apt/archives
  # In a container debootstrap leaves links in their place.
  rm -rf --one-file-system "$arm64_root"/{proc,sys}
  mkdir "$arm64_root"/{proc,sys}
  touch "$arm64_root/made"
}

arm64_version() { basename "$(readlink "$arm64_root/usr/bin/python3")" | sed 's/python//'; }

install_for_arm64() { # install_for_arm64 PACKAGE...
  logged arm64-pip python -m pip install --upgrade --only-binary=:all: --implementation cp \
    --python-version "$(arm64_version)" --platform manylinux_2_28_aarch64 \
    --platform manylinux2014_aarch64 --target "$arm64_root/usr/lib/python3/dist-packages" "$@"
}

# In the folder where the C++ tests are built. Debian's pyconfig.h includes that of the machine.
build_arm64_package() {
  local version abi
  version=$(arm64_version) abi=cpython-${version//./}-aarch64-linux-gnu
  mkdir -p "$arm64_python/include"
  ln -sfn "../root/usr/include/aarch64-linux-gnu" "$arm64_python/include/aarch64-linux-gnu"
  say "building the extension for arm64"
  configure_preset arm64 -D TENSORBUS_BUILD_PYTHON=ON -D SKBUILD=ON -D SKBUILD_SOABI="$abi" \
    -D CMAKE_INSTALL_LIBDIR=lib -D Python_EXECUTABLE="$(command -v python)" \
    -D Python_INCLUDE_DIR="$PWD/$arm64_root/usr/include/python$version" \
    -D nanobind_ROOT="$(python -m nanobind --cmake_dir)"
  CPATH=$PWD/$arm64_python/include logged build-arm64-python \
    cmake --build --preset arm64 --target _core
  rm -rf "$arm64_python/package"
  mkdir "$arm64_python/package"
  cp -r python/tensorbus "$arm64_python/package/"
  logged arm64-package cmake --install build/arm64 --prefix "$arm64_python/package/tensorbus"
}

# in_arm64_root COMMAND...: in the checkout, which is /tensorbus there.
in_arm64_root() {
  mkdir -p "$arm64_root/tensorbus"
  # shellcheck disable=SC2016
  emulated bash -euc '
    root=$1 package=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount --bind . "$root/tensorbus"
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 \
      bash -c "cd /tensorbus && exec \"\$@\"" bash "$@"
  ' bash "$arm64_root" "$arm64_package" "$@"
}

test_arm64_python() { # test_arm64_python [PYTEST ARGUMENT]...
  step="the Python tests"
  say "$step: CPython $(arm64_version)"
  in_arm64_root python3 -m pytest -n 2 --dist loadfile -m "not slow" -p tensorbus._pytest_plugin \
    -p no:cacheprovider -k "not in_docstrings" --timeout 600 \
    "${python_not_emulated[@]/#/--deselect=tests/python/}" "${arm64_tests[@]/#/tests/python/}" "$@"
}
