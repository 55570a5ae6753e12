# shellcheck shell=bash
# Sourced after setup.sh and debian.sh: CPython from Debian's source packages.

# Prints the folder of what was unpacked: of the first of these packages that the registry has, in its
# newest version that is still there; an index may list others.
fetch_cpython() { # fetch_cpython SUITE FOLDER PACKAGE...
  local suite=$1 work=$2 package version uri apt
  shift 2
  # Beside what this machine installs packages from.
  apt=(-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root)
  read -r uri _ < <(debian_registry) || die "apt-get knows no registry of this release"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" \
    >"$work/sources.list"
  logged cpython-update apt-get "${apt[@]}" update
  for package in "$@"; do
    for version in $(apt-cache "${apt[@]}" showsrc "$package" 2>/dev/null |
      awk '$1 == "Version:" { print $2 }' | sort -rV); do
      rm -rf "$work/source"
      mkdir "$work/source"
      if (cd "$work/source" && apt-get "${apt[@]}" source --download-only "$package=$version") \
        >"build/logs/cpython-fetch.log" 2>&1; then
        tar --extract --directory "$work/source" \
          --file "$(compgen -G "$work/source/${package}_*.orig.tar.*z")"
        echo "$work/source"/Python-*
        return
      fi
    done
  done
  die "Debian's registry has no source of $*: build/logs/cpython-fetch.log"
}
