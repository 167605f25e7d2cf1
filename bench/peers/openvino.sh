#!/usr/bin/env bash
# Installs the peer openvino-genai from PyPI in an environment outside the tree and prints its
# Python.
# Environment: XDG_CACHE_HOME.
set -euo pipefail

version=2026.4.1.0
root="${XDG_CACHE_HOME:-$HOME/.cache}/orrery/peers/openvino-$version"
if [ ! -e "$root/installed" ]; then
  echo "peers: installing openvino-genai $version" >&2
  python3 -m venv "$root"
  "$root/bin/pip" install -q "openvino-genai==$version" numpy >&2
  touch "$root/installed"
fi
echo "$root/bin/python"
