# `make help` lists the targets.
#
#   make ARCHS="80 90"   GPU code for these architectures (default: the GPU present, else the common ones)
#   make CUDA=no         without the GPU engine, as on a machine without nvcc
#   make CXX=clang++     another host compiler

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := all
MAKEFLAGS += --warn-undefined-variables
.DELETE_ON_ERROR:

BUILD ?= build
BIN ?= .
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
NVCC ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA ?= $(if $(NVCC),yes,no)
SANITIZE ?=
PYTHON ?= python3
TEST_ARGS ?=
CASES ?=
LEAKS ?= 0
MACHINE := $(shell uname -m)

# ---- Flags. The contract (src/contract.h) holds only with contraction off and without fast-math, in every
# translation unit of both compilers.
EXACT := -ffp-contract=off
WARN := -Wall -Wextra -Wshadow -Wconversion -Werror
HARDEN := -fstack-protector-strong -D_FORTIFY_SOURCE=2
SANITIZER_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPTIMISE := $(if $(SANITIZE),-O1 $(SANITIZER_FLAGS),-O3 $(HARDEN))
CXXFLAGS := -std=c++17 -g $(OPTIMISE) $(EXACT) $(WARN)
LDFLAGS := $(if $(SANITIZE),$(SANITIZER_FLAGS))
LDLIBS := -lz -lpthread

GPU_ARCHS := $(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null)))
COMMON_ARCHS := 75 80 86 89 90 100 120
ARCHS ?= $(or $(GPU_ARCHS),$(COMMON_ARCHS))
BAD_ARCHS := $(shell for a in $(ARCHS); do [[ $$a =~ ^[0-9]{2,3}$$ ]] || echo "$$a"; done)
ifneq ($(BAD_ARCHS),)
$(error ARCHS must be numbers like 80 or 90, got: $(BAD_ARCHS))
endif
HOST_WARN := -Wall,-Wextra,-Wshadow,-Werror
NVCCFLAGS := -std=c++17 -O3 -lineinfo -fmad=false -ccbin $(CXX) --threads 0 -Werror all-warnings \
    -Xcompiler $(EXACT),$(HOST_WARN) -Xptxas -warn-spills $(foreach a,$(ARCHS),-gencode=arch=compute_$(a),code=sm_$(a)) \
    -DHW4_ARCHS='"$(strip $(ARCHS))"'

# ---- Files
COMMON := src/case_file.cpp src/domain.cpp src/gzip_source.cpp src/interrupt.cpp src/output_file.cpp
CPU_KERNELS := src/cpu/generic.cpp $(if $(filter aarch64,$(MACHINE)),src/cpu/neon.cpp) \
    $(if $(filter x86_64,$(MACHINE)),src/cpu/avx2.cpp src/cpu/avx512.cpp)
HW4_HOST := $(COMMON) src/engine.cpp src/options.cpp src/run_report.cpp src/cpu/engine.cpp src/cpu/kernel.cpp $(CPU_KERNELS)
GPU_SOURCES := $(wildcard src/gpu/*.cu src/gpu/exact/*.cu)
UNIT_TESTS := $(wildcard tests/*_test.cpp)
GPU_TESTS := $(wildcard tests/*_test.cu)
STYLED = $(shell git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' 2>/dev/null)

objects = $(patsubst %,$(BUILD)/%.o,$(1))
ifeq ($(CUDA),yes)
HW4_OBJECTS := $(call objects,hw4.cu $(HW4_HOST) $(GPU_SOURCES))
LINK_HW4 = $(NVCC) $(NVCCFLAGS) $(addprefix -Xcompiler ,$(LDFLAGS)) $^ -o $@ $(LDLIBS)
else
HW4_OBJECTS := $(call objects,hw4.cu $(HW4_HOST) src/gpu/absent.cpp)
LINK_HW4 = $(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)
endif
PROGRAMS := $(BIN)/hw4 $(BIN)/seq $(BIN)/testcases/generate $(BIN)/judge/compare

## all: build hw4, seq, testcases/generate and judge/compare (the default)
.PHONY: all
all: $(PROGRAMS)
	@[ "$(CUDA)" = yes ] || echo "Built without the GPU engine: nvcc was not found (or CUDA=no was given)."

$(BIN)/hw4: $(HW4_OBJECTS)
	@mkdir -p $(@D)
	$(LINK_HW4)

# generate looks for the table beside itself.
ifneq ($(BIN),.)
PROGRAMS += $(BIN)/testcases/cases.tsv
$(BIN)/testcases/cases.tsv: testcases/cases.tsv
	@mkdir -p $(@D)
	cp $< $@
endif

$(BIN)/seq: $(call objects,seq.cpp $(COMMON))
$(BIN)/testcases/generate: $(call objects,testcases/generate.cpp $(COMMON) src/case_values.cpp)
$(BIN)/judge/compare: $(call objects,judge/compare.cpp)
$(BIN)/seq $(BIN)/testcases/generate $(BIN)/judge/compare:
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/src/cpu/avx2.cpp.o: CXXFLAGS += -mavx2 -mfma
$(BUILD)/src/cpu/avx512.cpp.o: CXXFLAGS += -mavx512f

$(BUILD)/%.cpp.o: %.cpp Makefile
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -MMD -MP -c $< -o $@

ifeq ($(CUDA),yes)
$(BUILD)/%.cu.o: %.cu Makefile $(BUILD)/archs
	@mkdir -p $(@D)
	$(NVCC) $(NVCCFLAGS) -MMD -MP -c $< -o $@
else
$(BUILD)/%.cu.o: %.cu Makefile $(BUILD)/archs
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -MMD -MP -x c++ -c $< -o $@
endif

# Changes when what the GPU code is built for changes.
.PHONY: force
$(BUILD)/archs: force
	@mkdir -p $(@D)
	@echo "$(CUDA) $(ARCHS)" | cmp -s - $@ || echo "$(CUDA) $(ARCHS)" > $@

## run: install what is missing, build, make a test case, run hw4 on it and check the bytes
.PHONY: run
run: | need-run
	@$(MAKE) --no-print-directory all
	@mkdir -p $(BUILD)/run
	testcases/generate t04 $(BUILD)/run/t04.in
	./hw4 --time $(BUILD)/run/t04.in $(BUILD)/run/t04.out
	./seq $(BUILD)/run/t04.in $(BUILD)/run/t04.expected
	judge/compare $(BUILD)/run/t04.in $(BUILD)/run/t04.expected $(BUILD)/run/t04.out

## test: install what is missing, build, run every test; GPU tests too where there is a GPU
.PHONY: test
test: | need-test
	@$(MAKE) --no-print-directory all tests
	tests/run --bin $(BIN) --build $(BUILD) $(TEST_ARGS)

.PHONY: tests
tests: $(BUILD)/unit_tests $(if $(filter yes,$(CUDA)),$(BUILD)/gpu_tests)

TEST_OBJECTS := $(call objects,$(HW4_HOST) src/case_values.cpp) $(BUILD)/tests/seq_library.o
$(BUILD)/tests/seq_library.o: seq.cpp Makefile
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -DSEQ_AS_LIBRARY -MMD -MP -c $< -o $@

$(BUILD)/unit_tests: $(call objects,$(UNIT_TESTS)) $(TEST_OBJECTS)
	$(CXX) $(LDFLAGS) $^ -o $@ -lgtest -lgtest_main $(LDLIBS)

$(BUILD)/gpu_tests: $(call objects,$(GPU_TESTS) $(GPU_SOURCES)) $(TEST_OBJECTS)
	$(NVCC) $(NVCCFLAGS) $(addprefix -Xcompiler ,$(LDFLAGS)) $^ -o $@ -lgtest -lgtest_main $(LDLIBS)

## judge: run hw4 over all cases of testcases/cases.tsv; CASES="t01 t28" for some
.PHONY: judge
judge: all
	judge/judge --bin $(BIN) $(CASES)

# LEAKS=1 looks for leaks too; off by default, since that takes seconds for each of hundreds of processes.
## sanitize: the tests that need no GPU, under AddressSanitizer and UndefinedBehaviorSanitizer
.PHONY: sanitize
sanitize: | need-test
	@$(MAKE) --no-print-directory all
	@$(MAKE) --no-print-directory BUILD=build/sanitize BIN=build/sanitize/bin CUDA=no SANITIZE=1 all tests
	ASAN_OPTIONS=detect_leaks=$(LEAKS) tests/run --bin build/sanitize/bin --build build/sanitize --quick $(TEST_ARGS)

## gpu-check: compute-sanitizer's four tools over the GPU tests (needs a GPU)
.PHONY: gpu-check
gpu-check: all tests
	tests/gpu-check --build $(BUILD)

## format: lay the sources out with clang-format; format-check only looks
.PHONY: format format-check
format:
	clang-format -i $(STYLED)
format-check:
	clang-format --dry-run -Werror $(STYLED)

## clean: remove everything that was built
.PHONY: clean
clean:
	rm -rf build hw4 seq testcases/generate judge/compare

# What the commands need and the machine lacks is installed through apt when that is allowed, or named.
.PHONY: need-run need-test
need-run need-test: need-%:
	@.ci/need $*

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

-include $(patsubst %.o,%.d,$(HW4_OBJECTS) $(TEST_OBJECTS) $(call objects,seq.cpp testcases/generate.cpp judge/compare.cpp $(UNIT_TESTS) $(GPU_TESTS) $(GPU_SOURCES) src/gpu/absent.cpp))
