# shellcheck shell=bash
# Sourced after setup.sh by scripts/deep, scripts/matrix and scripts/try_wheels: a Debian that has nothing else, with a
# copy of the checkout in /tensorbus.

# Its folder, which scripts/matrix changes.
fresh=build/deep/debian

# The registry that this machine's own packages come from: "URI CODENAME".
debian_registry() {
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v codename="$codename" '$2 == codename { print; exit }'
}

# Local packages and indexes that pip is configured with here. An index, "simple", names files beside
# itself.
pip_folders() {
  python3 -m pip config list | grep -o "/[^ ']*" | sed 's|^/*|/|; s|/simple/*$||' | sort -u | while read -r path; do
    if [[ -d $path && $path != /etc/* ]]; then echo "$path"; fi
  done
}

# What a process needs to reach the registries: certificates, names, and how pip is configured.
copy_network_settings() {
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf \
    "$HOME/.config/pip/pip.conf"; do
    if [[ -f $file ]]; then install -D -m 644 "$file" "$fresh$file"; fi
  done
}

network_variables() {
  env | grep -E '^([a-z]+_proxy|[A-Z]+_PROXY|PIP_[A-Z_]+|SSL_[A-Z_]+|[A-Z]+_CA_BUNDLE)=' || true
}

# make_debian [CODENAME]: that of this machine, if not said; with $packages, if they are set.
make_debian() {
  local uri codename
  [[ $EUID -eq 0 ]] || die "a Debian of its own needs root: run as root, or leave out this part"
  command -v debootstrap >/dev/null || install_debian_packages debootstrap
  read -r uri codename < <(debian_registry) || die "apt-get knows no registry of this release"
  codename=${1:-$codename}
  say "debootstrap of $codename from $uri"
  rm -rf --one-file-system "$fresh"
  mkdir -p "$fresh"
  logged debootstrap debootstrap --variant=minbase \
    --include="${packages:-ca-certificates,python3}" "$codename" "$fresh" "$uri"
  copy_network_settings
  copy_checkout
}

copy_checkout() {
  mkdir -p "$fresh/tensorbus"
  # What the checkout does not have any more goes; what was built there stays.
  find "$fresh/tensorbus" -mindepth 1 -maxdepth 1 ! -name build ! -name .venv -exec rm -rf {} +
  git ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from=- | tar --extract --directory "$fresh/tensorbus"
}

# Its own mounts and processes, which end with it.
run_in_debian() { # run_in_debian COMMAND...
  local folders=() variables=()
  mapfile -t folders < <(pip_folders)
  mapfile -t variables < <(network_variables)
  step="$* in a fresh Debian"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    fresh=$1 count=$2
    shift 2
    mount -t proc proc "$fresh/proc"
    mount --rbind /sys "$fresh/sys"
    mount --rbind /dev "$fresh/dev"
    mount -t tmpfs tmpfs "$fresh/dev/shm"
    for _ in $(seq "$count"); do
      mkdir -p "$fresh$1"
      mount --bind "$1" "$fresh$1"
      shift
    done
    exec chroot "$fresh" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
  ' bash "$fresh" "${#folders[@]}" "${folders[@]}" "${variables[@]}" "$@"
}
