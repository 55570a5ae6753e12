# shellcheck shell=bash
# Sourced after setup.sh and debian.sh by scripts/deep: what tests/containers need, in
# build/containers. An engine may fetch images; these tests make theirs of Debian's packages.

containers_root=build/containers/root

setup_container_engine() {
  [[ $EUID -eq 0 ]] || die "the container engine of these tests runs as root: run as root, or leave out this part"
  local missing=() tool
  for tool in podman runc debootstrap catatonit; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  install_debian_packages "${missing[@]}"
}

# A Debian with the wheel of setup_package, for whose Python Debian's must be one.
make_container_root() {
  local uri codename versions
  read -r uri codename < <(debian_registry) || die "apt-get knows no registry of this release"
  if [[ ! -f $containers_root/usr/bin/python3 ]]; then
    say "debootstrap of $codename from $uri"
    rm -rf --one-file-system "$containers_root"
    mkdir -p "$containers_root"
    logged containers-debootstrap debootstrap --variant=minbase --include=python3 "$codename" \
      "$containers_root" "$uri"
    rm -rf "$containers_root"/var/cache/apt/* "$containers_root"/var/lib/apt/lists/*
  fi
  versions=$(python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  [[ -x $containers_root/usr/bin/$versions ]] ||
    die "the Python of $codename is not $versions, for which the package was built"
  logged containers-packages python -m pip install --upgrade --target \
    "$containers_root/usr/lib/python3/dist-packages" numpy msgspec "$(package_wheel)"
}
