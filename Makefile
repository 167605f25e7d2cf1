# Thin fronts to scripts/ and the CMake presets. Each target installs what it is missing first.

JOBS ?= $(shell nproc)
MODEL ?=
PROMPT ?=
PREFIX ?= /usr/local
REQUESTS ?= 30000
export PROMPT
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_PCH_EXTSUM := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime

.PHONY: help build run test check bench bench-peers bench-serve soak install format lint clean

help:
	@echo "make build                     the program, at build/orrery"
	@echo "make run [MODEL=..] [PROMPT=..] build, get the default model, chat or answer"
	@echo "make test                      every check that CI runs (sanitizers, fuzzers too)"
	@echo "make check                     the release build's tests and the style checks"
	@echo "make bench                     measure the default model (or MODEL=..) and the kernels: report/"
	@echo "make bench-peers               the same beside llama.cpp and OpenVINO, as a table of ratios"
	@echo "make bench-serve               the server under load beside llama.cpp's, and its fairness"
	@echo "make soak [REQUESTS=30000]     requests of nice and of ill clients; nothing may be left of them"
	@echo "make install [PREFIX=..]       install the program, the library and its header"
	@echo "make format, make lint         apply the code format; check the style"

configure:
	@scripts/setup
	@cmake --preset release >/dev/null

build: configure
	@cmake --build build -j $(JOBS) --target orrery

run: build
	@test -n "$(MODEL)" || scripts/default-model >/dev/null
	@if [ -n "$$PROMPT" ]; then build/orrery run $(MODEL) -p "$$PROMPT"; \
	else build/orrery run $(MODEL); fi

test:
	@scripts/test

check:
	@scripts/setup --test
	@cmake --preset release -DORRERY_ALL_CHECKS=OFF >/dev/null
	@cmake --build build -j $(JOBS)
	@PATH="$(CURDIR)/build-venv/bin:$$PATH" ctest --test-dir build -j $(JOBS) --output-on-failure

bench: build
	@cmake --build build -j $(JOBS) --target rows_bench blocks_bench
	@test -n "$(MODEL)" || scripts/default-model >/dev/null
	@bench/report/report.py $(if $(MODEL),--model $(MODEL))

bench-peers: build
	@bench/peers/compare.py $(if $(MODEL),--model $(MODEL),--openvino)

bench-serve: build
	@bench/serve/load.py $(if $(MODEL),--model $(MODEL))
	@bench/serve/fairness.py $(if $(MODEL),--model $(MODEL))

soak: build
	@scripts/default-model >/dev/null
	@python3 tests/server/soak_test.py build/orrery $(REQUESTS)

install: build
	@cmake --build build -j $(JOBS)
	@cmake --install build --prefix "$(PREFIX)"

format:
	@scripts/setup --test
	@git ls-files -z '*.cpp' '*.hpp' '*.h' '*.c' | xargs -0 clang-format-19 -i

lint:
	@scripts/setup --test
	@python3 tests/lint/lint.py

clean:
	@rm -rf build build-dev build-tsan build-clang build-venv
