#!/usr/bin/env bash
# The steps of a published wheel beside building it: `wheels.sh name|prepare|test FOLDER`, where FOLDER is a checkout.
# WARPLOOM_WHEEL is what the wheel is for: cpu, cu12 or cu13.
set -euo pipefail

step=$1
folder=$2
wheel=${WARPLOOM_WHEEL:?is to be cpu, cu12 or cu13}

# A wheel for CUDA is a project of its own, as an index knows no other way to tell wheels of one version apart.
name() {
  case $wheel in
    cpu) ;;
    cu12 | cu13)
      sed -i -e "s/^name = \"warploom\"$/name = \"warploom-$wheel\"/" -e "s/\"warploom\[/\"warploom-$wheel[/g" \
        "$folder/pyproject.toml"
      ;;
    *)
      echo "WARPLOOM_WHEEL is '$wheel', not cpu, cu12 or cu13" >&2
      exit 2
      ;;
  esac
}

# In the container that wheels are built in: the toolkit, as far as the build needs it, and ccache.
install() {
  dnf install -y epel-release
  dnf install -y ccache
  if [ "$wheel" = cpu ]; then return; fi
  case $(uname -m) in
    x86_64) machine=x86_64 ;;
    aarch64) machine=sbsa ;;
    *) echo "no CUDA for $(uname -m)" >&2 && exit 2 ;;
  esac
  case $wheel in
    cu12) version=12-9 ;;  # the first ones know GPUs of compute capability 12.0
    cu13) version=13-0 ;;
  esac
  dnf install -y dnf-plugins-core
  dnf config-manager --add-repo "https://developer.download.nvidia.com/compute/cuda/repos/rhel8/$machine/cuda-rhel8.repo"
  dnf install -y "cuda-nvcc-$version" "cuda-cudart-devel-$version" "cuda-cccl-$version"
  ln -sfn "/usr/local/cuda-${version/-/.}" /usr/local/cuda
}

# The installed wheel in a fresh environment, on a machine without a GPU.
check() {
  cd "$(mktemp -d)"
  python - "$wheel" <<'PYTHON'
import sys, warploom
built = warploom._core.cuda_info()["built"]
assert built == (sys.argv[1] != "cpu"), f"a wheel for {sys.argv[1]} with CUDA: {built}"
PYTHON
  python -m pytest -q -c "$folder/pyproject.toml" --rootdir "$folder" -p no:cacheprovider \
    "$folder/tests/python/test_package.py" "$folder/tests/python/test_operators.py" "$folder/tests/python/test_threads.py"
}

case $step in
  name) name ;;
  prepare) name && install ;;
  test) check ;;
  *)
    echo "unknown step '$step'" >&2
    exit 2
    ;;
esac
