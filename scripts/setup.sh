#!/bin/sh
# Prepare a fresh machine: a virtual environment in .venv and an OpenCL platform.
# Says what it does, one line each; does nothing that is already done.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
install() {
  say "apt-get install $*"
  [ -n "${apt_updated:-}" ] || apt-get update -qq
  apt_updated=yes
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}
has_platform() { ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1 || [ -n "${OCL_ICD_VENDORS:-}" ]; }

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  root || die "$python with venv not found; install python3 and python3-venv (3.11 or newer)"
  install python3 python3-venv
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "$("$python" --version) is too old; set PYTHON to 3.11 or newer"

# The ring of camera notifications needs real atomics from here; a minimal Debian may lack it.
if root && ! ldconfig -p | grep -q libatomic.so.1; then install libatomic1; fi

wheel=
if has_platform; then
  say "OpenCL: $(ls /etc/OpenCL/vendors/*.icd 2>/dev/null | tr '\n' ' ')${OCL_ICD_VENDORS:-}"
elif root; then
  install pocl-opencl-icd
  say "OpenCL: Debian's PoCL"
else
  wheel=pocl-binary-distribution
  # That PoCL links kernels with a C tool chain; without one, a linker comes as a wheel too.
  command -v cc >/dev/null || wheel="$wheel ziglang"
  say "OpenCL: PoCL from the Python wheel, correct but several times slower;" \
    "the faster one: sudo apt-get install pocl-opencl-icd"
fi

[ -x .venv/bin/python ] || { say "virtual environment in .venv"; "$python" -m venv .venv; }
say "Python packages"
# shellcheck disable=SC2086 # $wheel is a list of words, or empty
.venv/bin/pip install --quiet --disable-pip-version-check -e '.[dev]' $wheel
case $wheel in *ziglang*) cp scripts/ld-for-pocl .venv/bin/ld ;; esac
touch .venv/ready
