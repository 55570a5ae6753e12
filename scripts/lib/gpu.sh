# shellcheck shell=bash
# Sourced after setup.sh by the scripts for --gpu: builds for the Python and the PyTorch that the
# machine has, and fetches nothing.

gpu_package=build/gpu-package

# What setup_gpu builds with and the tests run with. Wheels of what is missing, or too old, may lie in
# .whl, or in the folder that TENSORBUS_WHEELS names.
gpu_modules=(nanobind msgspec numpy pytest pytest_timeout xdist execnet)

missing_modules() {
  python3 - "$@" <<'PYTHON'
import importlib.util
import sys

print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
PYTHON
}

require_gpu() {
  command -v python3 >/dev/null || die "python3 is missing"
  python3 - <<'PYTHON' || die "--gpu needs an NVIDIA GPU and PyTorch 2.4 or newer, and fetches neither: without, scripts/test runs all that needs none"
import sys

try:
    import torch
except ImportError:
    sys.exit(f"{sys.executable} has no PyTorch")
version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if version < (2, 4):
    sys.exit(f"this is PyTorch {torch.__version__}")
if torch.version.cuda is None:
    sys.exit(f"this PyTorch ({torch.__version__}) is built without CUDA")
if not torch.cuda.is_available():
    sys.exit(f"PyTorch {torch.__version__} sees no GPU: nvidia-smi tells what the driver sees")
for ordinal in range(torch.cuda.device_count()):
    print(f"-- cuda:{ordinal}: {torch.cuda.get_device_name(ordinal)}, PyTorch {torch.__version__}")
PYTHON
}

# Has programs of this shell find what setup_gpu builds.
use_gpu_package() {
  export PYTHONPATH="$PWD/$gpu_package${PYTHONPATH:+:$PYTHONPATH}"
  export TENSORBUS_EXAMPLES="$PWD/build/gpu/examples"
  export LD_LIBRARY_PATH="$PWD/$gpu_package/tensorbus/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# Builds the library, the module and the benchmarks, and puts the package together in $gpu_package.
setup_gpu() {
  local missing wheels=${TENSORBUS_WHEELS:-.whl} tool
  for tool in cmake ninja g++; do
    command -v "$tool" >/dev/null || die "$tool is missing, and --gpu fetches nothing"
  done
  use_gpu_package
  if compgen -G "$wheels/*.whl" >/dev/null; then
    say "unpacking $wheels/*.whl"
    logged gpu-wheels python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir \
      --upgrade --target "$gpu_package" "$wheels"/*.whl
  fi
  missing=$(missing_modules "${gpu_modules[@]}")
  [[ -z $missing ]] || die "this Python lacks: $missing. --gpu fetches nothing; put wheels of them into .whl (pip download --no-deps --only-binary=:all: -d .whl ...)"
  say "building build/gpu"
  logged configure-gpu cmake -S . -B build/gpu -G Ninja -D CMAKE_BUILD_TYPE=Release \
    -D TENSORBUS_BUILD_PYTHON=ON -D TENSORBUS_BUILD_BENCH=ON -D TENSORBUS_BUILD_EXAMPLES=ON \
    -D Python_EXECUTABLE="$(command -v python3)" \
    -D nanobind_DIR="$(python3 -m nanobind --cmake_dir)"
  rm -f build/gpu/_core*.so build/gpu/libtensorbus.so*
  # A benchmark or an example that does not compile here is no reason to test nothing.
  logged build-gpu cmake --build build/gpu -- -k 0 || {
    compgen -G 'build/gpu/_core*.so' >/dev/null || die "the library was not built, see build/logs/build-gpu.log"
    say "not all was built:"
    grep -m 20 FAILED build/logs/build-gpu.log || :
  }
  mkdir -p "$gpu_package/tensorbus/lib"
  ln -sfn "$PWD"/python/tensorbus/* "$gpu_package/tensorbus/"
  cp build/gpu/_core*.so "$gpu_package/tensorbus/"
  cp build/gpu/libtensorbus.so* "$gpu_package/tensorbus/lib/"
}
