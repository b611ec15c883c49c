# `make run` and `make test` do all set-up by themselves on Debian 12, as root or with sudo.
SECONDS ?= 60
SOAK_HOURS ?= 2
JOBS ?= $(shell nproc)
# Suites over sockets mostly wait.
TEST_JOBS ?= $(shell expr 2 '*' $$(nproc))
FUZZ_CI_SECONDS ?= 20
REQUESTS ?= 100000
SEED ?= 1
PRESET ?= release
LOAD ?= all
# ThreadSanitizer gives up where addresses are randomised by 32 bits; containers may forbid to switch that off.
FIXED_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help deps build all run chaos test test-cluster test-sanitizers test-asan test-tsan bench bench-tools bench-index soak profile fuzz fmt lint package clean

help:
	@echo "make run              four mock engines and the router on http://localhost:8080, Ctrl-C stops all"
	@echo "make run PD=1         the same with prefill/decode pairs; PD=sglang, PD=http ... for another connector"
	@echo "make test             release build and all tests but those of test-cluster"
	@echo "make test-cluster     chart, image, and a Kubernetes control plane (needs root); compiles again for the image,"
	@echo "                      and helm and Kubernetes at the first run"
	@echo "make test-sanitizers  the tests under address+undefined and thread sanitizers, fuzz corpora and short fuzzing"
	@echo "make build            build/release/warmroute and mock-engine"
	@echo "make bench            cost, memory and latency beside nginx, HAProxy and sglang-router; QUICK=1: in two minutes"
	@echo "make bench-index      the prefix index alone"
	@echo "make soak             SOAK_HOURS=$(SOAK_HOURS) hours of a fleet, in short; bytes in use and resident memory must come back"
	@echo "make profile          top functions and system calls per request and event; LOAD=chat, chat100k, sse, routes or pods"
	@echo "make chaos            REQUESTS=$(REQUESTS) requests amid random faults, SEED=$(SEED); PRESET=asan or tsan: that build"
	@echo "make fuzz             every fuzz target for SECONDS=$(SECONDS) seconds"
	@echo "make fmt | lint       clang-format; layers, bans, format and clang-tidy on changed files"
	@echo "make package          a .deb in build/release"

deps:
	@tools/install-deps.sh

build: deps
	@cmake --preset release --log-level=WARNING
	@cmake --build build/release -j $(JOBS) --target warmroute mock-engine

all: deps
	@cmake --preset release --log-level=WARNING
	@cmake --build build/release -j $(JOBS)

run: build
	@exec /usr/bin/python3 tools/demo/run.py

test: all
	@tools/test-env.sh
	@ctest --test-dir build/release --output-on-failure -j $(TEST_JOBS) -LE 'cluster|chart'

test-cluster: build
	@tools/install-deps.sh cluster
	@tools/cluster/setup.sh >/dev/null
	@ctest --test-dir build/release --output-on-failure -L 'cluster|chart'

# One build serves tests and fuzzing. Leaks count; reports stop the process, and the tests look for them.
test-asan: export ASAN_OPTIONS = detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1
test-asan: export UBSAN_OPTIONS = print_stacktrace=1:halt_on_error=1
test-asan: export WR_TEST_SLOWNESS = 4
test-asan: export FUZZ_SEED = 1
test-asan: deps
	@cmake --preset asan -DWR_FUZZ=ON --log-level=WARNING
	@cmake --build build/asan -j $(JOBS)
	@tools/test-env.sh
	@JOBS=$(JOBS) tools/fuzz.sh build/asan $(FUZZ_CI_SECONDS)
	@ctest --test-dir build/asan --output-on-failure -j $(TEST_JOBS) -LE 'e2e|cluster|chart'

test-tsan: export TSAN_OPTIONS = halt_on_error=1:second_deadlock_stack=1
test-tsan: export WR_TEST_SLOWNESS = 6
test-tsan: deps
	@cmake --preset tsan --log-level=WARNING
	@cmake --build build/tsan -j $(JOBS)
	@tools/test-env.sh
	@$(FIXED_ADDRESSES) ctest --test-dir build/tsan --output-on-failure -j $(TEST_JOBS) -LE 'e2e|fuzz|lint|cluster|chart'

test-sanitizers:
	@$(MAKE) --no-print-directory test-asan
	@$(MAKE) --no-print-directory test-tsan

bench: bench-tools
	@tools/bench/setup.sh
	@/usr/bin/python3 -B tools/bench/bench.py $(if $(QUICK),--quick) $(if $(README),--readme) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(GROUPS),--only $(GROUPS))

bench-tools: build
	@cmake --build build/release -j $(JOBS) --target bench-tools

bench-index: deps
	@cmake --preset release --log-level=WARNING
	@cmake --build build/release -j $(JOBS) --target bench_prefix_index
	@build/release/tests/bench/bench_prefix_index

soak: deps
	@cmake --preset release --log-level=WARNING
	@cmake --build build/release -j $(JOBS) --target soak_prefix_index
	@build/release/tests/soak/soak_prefix_index $(SOAK_HOURS)

profile: bench-tools
	@tools/bench/setup.sh profile
	@/usr/bin/python3 -B tools/bench/profile.py --load $(LOAD)

# WR_TEST_SLOWNESS stretches the time-outs: sanitizers slow the router down.
chaos: export ASAN_OPTIONS = detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1
chaos: export UBSAN_OPTIONS = print_stacktrace=1:halt_on_error=1
chaos: export TSAN_OPTIONS = halt_on_error=1:second_deadlock_stack=1
chaos: export WR_TEST_SLOWNESS ?= $(if $(filter tsan,$(PRESET)),6,$(if $(filter asan,$(PRESET)),3,1))
chaos: deps
	@cmake --preset $(PRESET) --log-level=WARNING
	@cmake --build build/$(PRESET) -j $(JOBS) --target warmroute
	@WR_BIN=$(CURDIR)/build/$(PRESET)/warmroute $(if $(filter tsan,$(PRESET)),$(FIXED_ADDRESSES)) \
	  /usr/bin/python3 -B tests/chaos/chaos.py --requests $(REQUESTS) --seed $(SEED)

fuzz: deps
	@cmake --preset fuzz --log-level=WARNING
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@JOBS=$(JOBS) tools/fuzz.sh build/fuzz $(SECONDS)

fmt: deps
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-16 -i

lint: deps
	@tools/lint.sh

package: build
	@cd build/release && cpack -G DEB && ls -l *.deb

clean:
	rm -rf build
