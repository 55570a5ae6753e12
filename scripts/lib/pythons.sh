# shellcheck shell=bash
# Sourced after setup.sh by scripts/wheels and scripts/matrix: the interpreters of this machine.

# What can make an environment and compile an extension: pyenv's shims may stand for nothing.
is_python() { # is_python VERSION COMMAND
  "$2" - "$1" 2>/dev/null <<'END'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
found = sys.implementation.name == "cpython" and os.path.exists(header)
sys.exit(not found or "%d.%d" % sys.version_info[:2] != sys.argv[1])
END
}

find_python() { # find_python VERSION: on the path, or pyenv's newest
  local candidate pyenv=${PYENV_ROOT:-$HOME/.pyenv}/versions
  for candidate in "python$1" "python3" $(printf '%s\n' "$pyenv/$1".*/bin/python | sort -rV); do
    if is_python "$1" "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}
