# shellcheck shell=bash
# Sourced after setup.sh by scripts/wheels and scripts/matrix: the interpreters of this machine.

# What can make an environment and compile an extension: pyenv's shims may stand for nothing.
is_python() { # is_python VERSION COMMAND; 3.13t is one without a GIL
  "$2" - "$1" 2>/dev/null <<'END'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
found = sys.implementation.name == "cpython" and os.path.exists(header)
free_threaded = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
sys.exit(not found or "%d.%d" % sys.version_info[:2] + free_threaded != sys.argv[1])
END
}

# On the path, where scripts/free_threaded puts one, or pyenv's newest.
find_python() { # find_python VERSION
  local candidate pyenv=${PYENV_ROOT:-$HOME/.pyenv}/versions
  # A free-threaded installation has the plain name, too, and may come first.
  for candidate in $(type -ap "python$1" python3) "/opt/python-$1/bin/python$1" \
    $(printf '%s\n' "$pyenv/${1%t}".*/bin/python | sort -rV); do
    if is_python "$1" "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# Wheels that no registry has for this interpreter lie beside it: see scripts/free_threaded.
use_wheels_of() { # use_wheels_of COMMAND
  local wheels
  wheels=$(dirname "$(dirname "$(command -v "$1")")")/wheels
  if [[ -d $wheels ]]; then
    export PIP_FIND_LINKS="$wheels${PIP_FIND_LINKS:+ $PIP_FIND_LINKS}" PIP_PREFER_BINARY=1
  fi
}

# install_wheel COMMAND REQUIREMENT LOG: 0: it is installed. 3: an index was read, and has no wheel of
# it for this interpreter. 1: anything else, which LOG tells.
install_wheel() {
  local status=0
  # -vv: pip names what it finds in an index and may not use. Of an index that it cannot reach it says
  # "from versions: none", as of one that has nothing that fits.
  "$1" -m pip install -vv --only-binary=:all: "$2" >"$3" 2>&1 || status=$?
  if [[ $status -eq 0 ]]; then return 0; fi
  local other="none of the wheel's tags|No sources permitted|Found link"
  if grep -q "No matching distribution found" "$3" && grep -qE "$other" "$3"; then return 3; fi
  return 1
}
