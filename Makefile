# The commands of the project; `make help` lists them. CMake does the work.

BUILD ?= build
JOBS ?= $(shell nproc)
# Four tests at a time for each core, because tests also wait.
TEST_JOBS ?= $(shell echo $$((4 * $(JOBS))))
FUZZ_SECONDS ?= 60
MUTATE_SEED ?= 1
TORTURE_SEEDS ?= 2
# A small quarantine of freed memory, so that programs stay within their bounds on memory.
ASAN_TESTS = ASAN_OPTIONS=quarantine_size_mb=16 ctest --output-on-failure -LE nosan --test-dir

# Sources are compiled in batches, since their headers take most of the time. To rebuild after changes of single
# files, call make with BATCHES= or use a preset without batches (dev, clang).
BATCHES ?= -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=128
# Where `make install` puts files, below DESTDIR; empty ones follow from PREFIX.
PREFIX ?= /usr/local
INSTALL_DIRS = -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(foreach dir,BINDIR SYSCONFDIR DATADIR DOCDIR,\
  $(if $($(dir)),-DCMAKE_INSTALL_$(dir)=$($(dir)),-UCMAKE_INSTALL_$(dir)))
# All build folders share objects in ccache: the distribution differs only in linking. Sources with precompiled
# headers need the sloppiness.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
export CCACHE_SLOPPINESS ?= pch_defines,time_macros

.PHONY: all programs configure help deps demo test beside unit check benchmarks bench bench-store bench-journal bench-parameters bench-detection bench-scale torture interop mutate asan tsan \
  sanitize fuzz install dist cuda-toolkit dist-xz dist-test clean

all: configure  ## build the programs and the tests into build/; programs are in build/bin
	@ninja -C $(BUILD) -j $(JOBS)

programs: configure  ## build only the programs that users run, without the tests
	@ninja -C $(BUILD) -j $(JOBS) programs

configure: deps
	@cmake -S . -B $(BUILD) -G Ninja $(BATCHES) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

help:  ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/'

deps:
	@scripts/deps build

demo: programs  ## train a CNN on Fashion-MNIST with one coordinator and two worker daemons
	@scripts/demo $(BUILD)/bin

test: deps  ## install the tests' dependencies, build, check, run all tests, report skipped tests
	@scripts/deps test
	@$(MAKE) --no-print-directory all check
	@tests/skips/skips.py $(BUILD) --output-on-failure -j $(TEST_JOBS)

beside: all  ## run all tests next to a running cluster on the default ports and eight busy processes
	@tests/beside/run $(BUILD) -- tests/skips/skips.py $(BUILD) --output-on-failure -j $(JOBS)

unit: all  ## run only unit tests, scenarios and simulation: under a minute
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) -LE slow

check:  ## check layers, format, and the lines of the docs
	@scripts/check

benchmarks: configure  ## build the programs of the benchmarks, which `make all` leaves out
	@ninja -C $(BUILD) -j $(JOBS) benchmarks

bench: all benchmarks  ## run the benchmarks; prints one JSON object a line: {name, ours, peer, ratio, unit}
	@tests/bench/run $(BUILD)

bench-store: all benchmarks  ## compare our stores with PyTorch's TCPStore servers, in the same form: about six minutes
	@tests/bench/store $(BUILD)

bench-journal: all benchmarks  ## compare durable puts and a restart with etcd's, in the same form: about five minutes
	@scripts/deps bench
	@tests/bench/journal $(BUILD)

bench-parameters: benchmarks  ## measure pushes and pulls of parameters beside plain gRPC and memcpy: about a minute
	@$(BUILD)/tests/parameters_bench

bench-detection: all benchmarks  ## measure how soon dp acts on a rank that exits and on a silent host: about three minutes
	@tests/bench/detection $(BUILD)

bench-scale: programs  ## load one coordinator with 10,000 ranks, 1,250 hosts, 5,000 jobs, 500 followers: about two minutes
	@ninja -C $(BUILD) -j $(JOBS) scale_load
	@tests/bench/scale $(BUILD)

torture: all  ## fail the journal's disk 10,000 times; kill, stop and cut off parts of a training job
	@$(BUILD)/tests/dp_journal_torture_test --seeds=$(TORTURE_SEEDS)
	@cd tests && for test in kill_matrix random_kills; do \
	  DP_BIN=$(abspath $(BUILD))/bin PYTHONDONTWRITEBYTECODE=1 KILL_MATRIX=full KILLS=200 \
	    python3 -m e2e.$${test}_test -v || exit 1; done

interop: all  ## run current PyTorch, JAX and TensorFlow on dp; installs their official wheels once
	@tests/interop/run $(BUILD)

mutate: deps  ## break the program in one line at a time, more than a hundred times: the tests must notice 95 %
	@scripts/deps test
	@tests/mutate/run --seed $(MUTATE_SEED) --jobs $(JOBS)

asan:  ## test everything under the address and undefined-behaviour sanitizers
	@cmake --preset asan $(BATCHES) >/dev/null && ninja -C build-asan -j $(JOBS)
# One test for each core: instrumented daemons are slow, and must keep their leases.
	@$(ASAN_TESTS) build-asan -j $(JOBS)

tsan:  ## test everything that links no gRPC under the thread sanitizer
	@cmake --preset tsan $(BATCHES) >/dev/null && ninja -C build-tsan -j $(JOBS)
	@ctest --test-dir build-tsan --output-on-failure -j $(TEST_JOBS) -LE nosan

sanitize: tsan  ## run tsan, then asan's sanitizers over everything that links no gRPC, as CI does
	@cmake --preset asan-core $(BATCHES) >/dev/null && ninja -C build-asan-core -j $(JOBS)
	@$(ASAN_TESTS) build-asan-core -j $(TEST_JOBS)

fuzz:  ## feed random bytes to every parser (tests/fuzz), FUZZ_SECONDS each
	@scripts/deps fuzz
	@cmake --preset fuzz $(BATCHES) >/dev/null && ninja -C build-fuzz -j $(JOBS) fuzz_programs
	@tests/fuzz/run build-fuzz $(FUZZ_SECONDS) $(JOBS)

install: programs  ## install below DESTDIR, in PREFIX (/usr/local), BINDIR, SYSCONFDIR, DATADIR, DOCDIR
	@cmake -S . -B $(BUILD) $(INSTALL_DIRS) >/dev/null
	@cmake --install $(BUILD) --strip

# CUDA=12, or a toolkit's folder, builds the GPU trainer with that toolkit, in a build folder for its version.
DIST_BUILD = build-dist$(if $(CUDA),-cuda$(shell scripts/cuda-toolkit --version '$(CUDA)'))
cuda_toolkit_options = -DCUDAToolkit_ROOT=$(1) -DCMAKE_CUDA_COMPILER=$(1)/bin/nvcc -DDP_REQUIRE_CUDA=ON

dist: $(if $(CUDA),cuda-toolkit) deps  ## pack dist/dp-VERSION-linux-x86_64.tar.gz, which runs where it is unpacked
	@cmake --preset dist -B $(DIST_BUILD) $(BATCHES) \
	  $(if $(CUDA),$(call cuda_toolkit_options,"$$(scripts/cuda-toolkit '$(CUDA)')")) >/dev/null
	@ninja -C $(DIST_BUILD) -j $(JOBS) programs gpu-tests
	@scripts/dist $(DIST_OPTIONS) $(if $(CUDA),--name-cuda) $(DIST_BUILD)

cuda-toolkit:
	@scripts/cuda-toolkit '$(CUDA)'

dist-xz:  ## pack a .tar.xz instead, a third smaller, for slow networks
	@$(MAKE) dist DIST_OPTIONS=--xz

dist-test: dist  ## test the tarball in root trees with only glibc, and the image built from it
	@scripts/deps dist
	@for test in dist guide image; do \
	  DP_BIN=$(CURDIR)/build-dist/bin python3 tests/deploy/$${test}_test.py -v || exit 1; done

clean:  ## remove every build folder
	@rm -rf build build-* dist
