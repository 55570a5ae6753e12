# shellcheck shell=bash
# Sourced by scripts/test after setup.sh, for a few tests after an edit. They are built in
# build/edit, where each source is compiled alone: an edit of one source costs the compilation of
# that source, and not of the ten of its group.

# Prepares build/edit, unless nothing has changed since the last time.
setup_edit() {
  local wanted files=(CMakePresets.json scripts/requirements-build.txt scripts/lib/{setup,edit}.sh)
  wanted="$PWD $(sha256sum "${files[@]}")"
  if [[ -f build/edit/build.ninja && $(cat .venv/stamps/edit 2>/dev/null) == "$wanted" ]]; then
    export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv"
    return
  fi
  setup_system gtest/gtest.h libgtest-dev
  setup_venv
  setup_requirements build
  say "configuring build/edit: the first build of a test program takes minutes"
  configure_preset edit -D nanobind_ROOT="$(python -m nanobind --cmake_dir)"
  echo "$wanted" >.venv/stamps/edit
}

build_edit() { # build_edit TARGET...: its output is not in a log, since it names mistakes
  step="building"
  cmake --build --preset edit --target "$@"
}

# Puts the package as it is in the checkout into a folder that Python searches before the virtual
# environment. The commands of Python (tensorbus-python, tensorbus-config) are those of the virtual
# environment.
use_edited_package() { # use_edited_package PYTHON PATH...: of the tests
  local package=build/edit/package targets=(tensorbus _core _core_stub cuda_standin)
  if [[ $* == *python/files* ]]; then targets+=(public_tests); fi # they start it
  if [[ $* =~ python/(cli|recording|nodes) ]]; then targets+=(tensorbus_command); fi
  setup_pkg_config
  setup_requirements run
  setup_torch
  setup_requirements test
  if [[ ! -f .venv/stamps/package ]]; then setup_package; fi
  build_edit "${targets[@]}"
  rm -rf "$package"
  mkdir "$package"
  cp -rp python/tensorbus "$package/"
  logged install-edit cmake --install build/edit --prefix "$package/tensorbus"
  export PYTHONPATH="$PWD/$package" TENSORBUS_TEST_BIN_DIR="$PWD/build/edit/bin"
}

# test_edit OPTION VALUE [PYTHON PATH]...: what scripts/lib/selection.py chooses, if OPTION is one,
# and these paths. As in scripts/test, side_by_side and pytest_arguments are for pytest.
test_edit() {
  local option=$1 value=$2 chosen="" kind line regex="" targets=() paths=("${@:3}")
  lock_setup
  setup_edit
  if [[ -n $option ]]; then
    logged sources-edit cmake --build --preset edit --target build.ninja # finds new sources
    step="the selection"
    chosen=$(python scripts/lib/selection.py build/edit "$option" "$value")
  fi
  while read -r kind line; do
    case $kind in
      target) targets+=("$line") ;;
      regex) regex=$line ;;
      path) paths+=("$line") ;;
      unselected) say "no test is chosen for $line" ;;
    esac
  done <<<"$chosen"
  if [[ $option == --cpp && -z $regex ]]; then die "no C++ test matches $value"; fi
  if [[ $option == --changed ]]; then
    say "chosen: ${targets[*]} ${paths[*]}; what builds upon the changes is tested by scripts/test"
  fi
  if [[ -n $regex ]]; then build_edit "${targets[@]}"; fi
  if [[ ${#paths[@]} -gt 0 ]]; then use_edited_package "${paths[@]}"; fi
  unlock_setup
  if [[ -n $regex ]]; then
    step="the C++ tests"
    ctest --preset edit -R "$regex"
  fi
  if [[ ${#paths[@]} -gt 0 ]]; then
    if [[ ${#paths[@]} -eq 1 && ! -d ${paths[0]} ]]; then side_by_side=(); fi
    step="the Python tests"
    python -m pytest "${side_by_side[@]}" "${pytest_arguments[@]}" "${paths[@]}"
  fi
}
