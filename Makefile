# `make help` lists the targets. These are the settings:
#
#   make V=1             the commands in full
#   make ARCHS="80 90"   GPU code for these architectures (default: the present GPU's; without one: 90, and PTX of 80)
#   make PTX_ARCH=75     PTX of this architecture, for the driver of any newer GPU (default: the newest of ARCHS)
#   make CUDA=no         without the GPU engine, as on a machine without nvcc
#   make CUDA=yes        with the GPU engine, also in make run and make test where there is no GPU
#   make MPI=yes         for several processes on one case (mpirun, srun); mpicc tells where MPI is, MPICC=... names it
#   make CXX=clang++     another host compiler
#   make PREFIX=~/.local install   installs there
#   make CXXFLAGS=-g     for a debugger; added to the project's own flags; LDFLAGS and NVCCFLAGS work in the same way
#   make NVCCFLAGS=-lineinfo   for a profiler that shows the sources; the code stays the same, the files grow threefold

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := all
MAKEFLAGS += --warn-undefined-variables
.DELETE_ON_ERROR:

BUILD ?= build
BIN ?= .
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
NVCC ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
# Whether the user asks for GPU code, or for a build without it.
ASKED := $(filter-out undefined,$(origin CUDA) $(origin ARCHS) $(origin PTX_ARCH))
NO_CUDA_BECAUSE := $(if $(filter undefined,$(origin CUDA)),nvcc was not found,CUDA=no was given)
CUDA ?= $(if $(NVCC),yes,no)
SANITIZE ?=
PYTHON ?= python3
TEST_ARGS ?=
CASES ?=
KERNEL ?= all
LINT_FILES ?=
FUZZ_SECONDS ?= 60
FUZZ_CXX ?= clang++
SOAK_SECONDS ?= 600
CXXFLAGS ?=
LDFLAGS ?=
NVCCFLAGS ?=
OPTIMIZE_GPU_TESTS ?= yes
MEASURE_ARGS ?=
PREFIX ?= /usr/local
DESTDIR ?=
LEAKS ?= 0
V ?=
MACHINE := $(shell uname -m)

# Prints a short line for a recipe's command; V=1 prints the whole command.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $(2))
# For a make inside a recipe: all processors, unless the user has set the number of jobs.
PROCESSORS := $(shell nproc)
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(PROCESSORS))

# ---- Flags. The contract (src/contracts/f32/forward.h) holds only with contraction off and without fast-math, in every
# translation unit of both compilers.
EXACT := -ffp-contract=off
EXACT_DEVICE := -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
# g++ 13 reports any function as dangling that returns a reference and has a temporary among its arguments.
FALSE_ALARMS := $(shell $(CXX) -Werror -Wdangling-reference -x c++ -E /dev/null > /dev/null 2>&1 && echo -Wno-dangling-reference)
WARN := -Wall -Wextra -Wshadow -Wconversion $(FALSE_ALARMS) -Werror
HARDEN := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fPIC -fno-semantic-interposition
HARDEN_LINK := -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
# SANITIZE=1 is AddressSanitizer and UndefinedBehaviorSanitizer, SANITIZE=thread is ThreadSanitizer.
SANITIZER_1 := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZER_thread := -fsanitize=thread -fno-omit-frame-pointer
INSTRUMENT := $(if $(SANITIZE),$(SANITIZER_$(SANITIZE)))
LEVEL := $(if $(INSTRUMENT),-O1,-O3)
HW4_CXXFLAGS = -std=c++17 -I. $(if $(INSTRUMENT),-g $(INSTRUMENT),$(HARDEN)) $(LEVEL) $(WARN) $(CXXFLAGS) $(EXACT)
HW4_LDFLAGS := $(or $(INSTRUMENT),$(HARDEN_LINK)) $(LDFLAGS)
LDLIBS := -lz -lpthread -ldl
# Compiles in three quarters of -O1's time. g++ may take a variable for uninitialized there that is not.
COLD_LEVEL := $(if $(INSTRUMENT),-O1,-Og $(shell $(CXX) -Werror -Wmaybe-uninitialized -x c++ -E /dev/null > /dev/null 2>&1 && \
    echo -Wno-maybe-uninitialized))
FILE_FLAGS :=
HEADER :=
DEVICE_CODE :=
NOTE_INCLUDES = -MMD -MP
GENCODE_WGMMA :=
GENCODE_SAME :=
GENCODE_TILES :=

# MPI is in one file, and in hw4 only on request; the tests have their own hw4 with MPI, where it is found. Open MPI's
# mpicc and MPICH's have different options. Warnings are off for their headers.
MPI ?= no
ifeq ($(filter yes no,$(MPI)),)
$(error MPI must be yes or no, got: $(MPI))
endif
MPICC ?= mpicc
MPI_FLAGS :=
MPI_LIBS :=
MPI_FOUND := $(shell command -v $(MPICC))
ifneq ($(MPI_FOUND),)
mpi_says = $(shell $(MPICC) --showme:$(1) 2>/dev/null || $(MPICC) -$(1)_info 2>/dev/null | cut -d' ' -f2-)
MPI_FLAGS := -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $(patsubst -I%,-isystem %,$(filter -I% -D%,$(call mpi_says,compile)))
MPI_LIBS := $(filter -l% -L%,$(call mpi_says,link))
# The folders in which the program looks for libraries when it starts, in options that nvcc takes too.
MPI_LIBS += $(patsubst -L%,-Xlinker -rpath -Xlinker %,$(filter -L%,$(MPI_LIBS)))
else ifeq ($(MPI),yes)
$(error MPI=yes needs $(MPICC), which was not found (Debian: openmpi-bin, libopenmpi-dev); MPICC=/path/to/mpicc names it)
endif

ARCHS_REMARK :=
PRESENT_ARCHS :=
ifeq ($(CUDA),yes)
ifeq ($(NVCC),)
$(error CUDA=yes needs nvcc, which was not found; NVCC=/path/to/nvcc names it)
endif
ascending = $(shell printf '%s\n' $(1) | sort -nu)
# Without a GPU: machine code for Hopper, which has its own kernels, and PTX, which the driver of any GPU from compute
# capability 8.0 on compiles when it first runs. Machine code for more GPUs takes minutes.
USUAL_ARCH := 90
USUAL_PTX := 80
NVCC_ARCHS := $(or $(patsubst compute_%,%,$(filter compute_%,$(shell $(NVCC) --list-gpu-arch))),$(USUAL_PTX) $(USUAL_ARCH))
# nvidia-smi prints errors on standard output too.
PRESENT_ARCHS := $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
    grep -Ex '[0-9]+\.[0-9]+'))
KNOWN_ARCHS := $(filter $(NVCC_ARCHS),$(PRESENT_ARCHS))
UNKNOWN_ARCHS := $(sort $(filter-out $(NVCC_ARCHS),$(PRESENT_ARCHS)))
PTX_ARCH ?=
ifeq ($(origin ARCHS),undefined)
ifeq ($(KNOWN_ARCHS),)
ARCHS := $(or $(filter $(USUAL_ARCH),$(NVCC_ARCHS)),$(lastword $(call ascending,$(NVCC_ARCHS))))
PTX_ARCH := $(or $(PTX_ARCH),$(filter $(USUAL_PTX),$(NVCC_ARCHS)))
ARCHS_REMARK := $(if $(UNKNOWN_ARCHS),$(NVCC) cannot build for the GPU here ($(UNKNOWN_ARCHS)),No GPU here)
else
ARCHS := $(call ascending,$(KNOWN_ARCHS))
endif
endif
BAD_ARCHS := $(shell for a in $(ARCHS) $(PTX_ARCH); do [[ $$a =~ ^[0-9]{2,3}$$ ]] || echo "$$a"; done)
ifneq ($(BAD_ARCHS),)
$(error ARCHS and PTX_ARCH must be numbers like 80 or 90, got: $(BAD_ARCHS))
endif
ifeq ($(strip $(ARCHS)),)
$(error ARCHS is empty: name the architectures to build for, ARCHS="80 90")
endif
# The driver of a newer GPU compiles this PTX; the default is the newest architecture's.
PTX_ARCH := $(or $(PTX_ARCH),$(lastword $(call ascending,$(ARCHS))))
ARCHS_REMARK := $(if $(ARCHS_REMARK),$(ARCHS_REMARK): hw4 has code for compute capability $(ARCHS) and runs on any from \
    $(PTX_ARCH) on; make ARCHS="75 86" makes code for others.)
comma := ,
empty :=
# For each architecture, the one that provides the PTX for its machine code: by default the same.
itself = $(1)
machine_code = $(foreach a,$(ARCHS),-gencode=arch=compute_$(call $(1),$(a)),code=sm_$(a))
ptx_code = -gencode=arch=compute_$(1),code=compute_$(1)
gencode = $(call machine_code,$(1)) $(call ptx_code,$(call $(1),$(PTX_ARCH)))
GENCODE := $(call gencode,itself)
# From 8.0 to 9.0 the kernels of f32 and those of mma.sync have the same source, and so the same PTX, which takes most
# of their time.
same_ptx = $(if $(filter 86 87 88 89 90,$(1)),$(firstword $(filter 80,$(NVCC_ARCHS)) $(1)),$(1))
GENCODE_SAME := $(call gencode,same_ptx)
# f32's tiles need 8.0: PTX of an earlier architecture would contain empty kernels.
TILES_PTX := $(if $(filter 75,$(PTX_ARCH)),$(firstword $(filter 80,$(NVCC_ARCHS)) $(PTX_ARCH)),$(call same_ptx,$(PTX_ARCH)))
GENCODE_TILES := $(call machine_code,same_ptx) $(call ptx_code,$(TILES_PTX))
# wgmma exists only for compute capability 9.0, under the name 90a.
GENCODE_WGMMA := $(if $(filter 90,$(ARCHS)),-gencode=arch=compute_90a$(comma)code=sm_90a,$(GENCODE))
# Device code is stored compressed; the first launch of a kernel unpacks it. The smallest size takes long to make.
COMPRESS := $(if $(findstring compress-mode,$(shell $(NVCC) --help)),--compress-mode=balance -Xfatbin -compress-all)
# nvcc splits the flags that it passes on at commas, as the compiler does after -Wl.
HOST_FLAGS := $(subst $(empty) $(empty),$(comma),$(strip $(EXACT) $(HARDEN) -Wall -Wextra -Wshadow $(FALSE_ALARMS) -Werror))
HW4_NVCCFLAGS = -std=c++17 -I. -ccbin $(CXX) --threads 0 $(COMPRESS) -Werror cross-execution-space-call,reorder \
    -Wno-deprecated-gpu-targets -Xcompiler $(HOST_FLAGS)$(comma)$(subst $(empty) $(empty),$(comma),$(strip $(LEVEL))) \
    -DHW4_ARCHS='"$(strip $(ARCHS))"' -DHW4_PTX_ARCH=$(PTX_ARCH) $(NVCCFLAGS) $(EXACT_DEVICE)
NVCC_LDFLAGS := $(patsubst -Wl$(comma)%,-Xlinker %,$(filter -Wl$(comma)%,$(HW4_LDFLAGS))) \
    $(addprefix -Xcompiler ,$(filter-out -Wl$(comma)%,$(HW4_LDFLAGS)))
endif

# Unless the user asks for GPU code, make run builds hw4 and seq with PARTS=attention, without code that takes a third
# of the time and that t04 does not need; where no GPU is present, make run and make test build the CPU engine alone.
# These programs have their own folders: $(BIN)/hw4 is always complete.
PARTS := all
CPU_ONLY := $(if $(PRESENT_ARCHS)$(ASKED),,$(filter yes,$(CUDA)))
HW4 := $(BIN)/hw4
RUN_BIN := $(if $(ASKED),$(BIN),$(BUILD)/run)
RUN_PROGRAMS := $(if $(ASKED),all,$(if $(CPU_ONLY),CUDA=no) BIN=$(RUN_BIN) PARTS=attention programs)
TEST_BIN := $(if $(CPU_ONLY),$(BUILD)/cpu,$(BIN))
TEST_PROGRAMS := $(if $(CPU_ONLY),CUDA=no BIN=$(TEST_BIN) programs,all)
TEST_PLACES := --bin $(TEST_BIN) --build $(BUILD) $(if $(CPU_ONLY)$(filter no,$(CUDA)),--no-cuda)

# ---- Files: each component's folder; processors' kernels only for this machine's processor.
COMMON := $(wildcard src/base/*.cpp src/problem/*.cpp src/io/*.cpp)
CONTRACTS := $(wildcard src/contracts/*.cpp src/contracts/*/*.cpp)
ARM_KERNELS := f32/neon fixed/sdot fixed/smmla
X86_KERNELS := f32/avx2 f32/avx512 fixed/avx2 fixed/avx_vnni fixed/avx512 fixed/amx half/amx
CPU_KERNELS := $(patsubst %,src/cpu/%.cpp,f32/generic fixed/generic \
    $(if $(filter aarch64,$(MACHINE)),$(ARM_KERNELS)) $(if $(filter x86_64,$(MACHINE)),$(X86_KERNELS)))
# A training step: what hw4 computes with, and what seq has too.
STEP_CPU := $(patsubst %,src/step/%.cpp,cpu product $(if $(filter x86_64,$(MACHINE)),avx2 avx512))
STEP := $(filter-out $(STEP_CPU) src/step/avx%,$(wildcard src/step/*.cpp))
RANKS := $(filter-out src/ranks/mpi.cpp src/ranks/without_mpi.cpp,$(wildcard src/ranks/*.cpp))
NO_GPU := src/gpu/absent.cpp src/bench/gpu/absent.cpp src/step/gpu/absent.cpp
NO_COMMANDS := src/commands/absent.cpp
NO_KERNELS := src/gpu/absent_kernels.cu
# Code that processes every number is fully optimised and linked first: where several objects define an inline function,
# the linker takes the first. The other code compiles in half the time.
HOT := $(filter-out src/contracts/list.cpp src/cpu/engine.cpp,$(CONTRACTS) $(wildcard src/cpu/*.cpp)) \
    $(CPU_KERNELS) src/problem/domain.cpp src/problem/element.cpp \
    src/io/case_values.cpp $(patsubst %,src/ranks/%.cpp,collectives ordered_sum) \
    $(patsubst %,src/bench/%.cpp,accumulate allreduce exact_rows naive) \
    $(STEP_CPU) $(filter $(patsubst %,src/step/%.cpp,generic reference tokens weights),$(STEP))
COLD := $(filter-out $(HOT) $(NO_COMMANDS),$(COMMON) $(CONTRACTS) $(STEP) $(RANKS) src/cpu/engine.cpp \
    $(wildcard src/run/*.cpp src/commands/*.cpp src/bench/*.cpp) src/gpu/kernel_file.cpp)
HW4_HOST := $(HOT) $(COLD)
SPLIT_KEYS := $(patsubst %,src/gpu/f32/forward/split_%.cu,bf16 fp16 float fold)
GPU_SOURCES := $(filter-out $(NO_KERNELS),$(wildcard src/gpu/*.cu src/gpu/*/*.cu src/gpu/*/*/*.cu))
BENCH_GPU := $(wildcard src/bench/gpu/*.cu)
STEP_ROWS := $(patsubst %,src/step/gpu/%.cu,cross_entropy elements embedding norms)
STEP_KERNELS := $(patsubst %,src/step/gpu/%.cu,linear_back linear_weights linear) $(STEP_ROWS) src/step/gpu/gains.cu
STEP_GPU := $(STEP_KERNELS) $(filter-out $(STEP_KERNELS),$(wildcard src/step/gpu/*.cu))
# The library is the kernels and their tables, without the program around them.
LIBRARY_HOST := $(CONTRACTS) $(filter-out src/cpu/engine.cpp,$(wildcard src/cpu/*.cpp)) $(CPU_KERNELS) \
    $(wildcard src/problem/*.cpp) $(addprefix src/library/,call.cpp library.cpp on_host.cpp) src/run/engine.cpp
LIBRARY_CUDA := $(filter-out $(addprefix src/gpu/,engine.cu fault.cu kernel_of_file.cu),$(GPU_SOURCES)) \
    src/library/on_device.cu
UNIT_TESTS := $(wildcard tests/unit/*_test.cpp)
BUSY_TESTS := $(patsubst %,tests/unit/%_test.cpp,backward base case_values contract cpu_engine cpu_kernels domain fixed \
    fixed16 fixed_accuracy fixed_shares half half_tiles problem properties row_statistics \
    step_accuracy step_machines stored_elements)
UNIT_SUPPORT := $(patsubst %,tests/support/%.cpp,main every_float expected_by_reference)
FUZZ_SOURCES := tests/fuzz/case_reader.cpp
DIFFERENTIAL := $(addprefix tests/fuzz/,differential.cpp drawn_case.cpp cpu_side.cpp) \
    $(if $(filter yes,$(CUDA)),tests/fuzz/gpu_side.cu,tests/fuzz/no_gpu_side.cpp)
GPU_TESTS := $(wildcard tests/gpu/*_test.cu)
# Files with kernels for every GPU that f32 supports, and files without kernels; all others have kernels of fixed.
PLANS := src/gpu/f32/forward/split_keys.cu src/gpu/f32/backward/kept_pairs.cu
F32_SOURCES := $(filter-out $(PLANS),$(wildcard src/gpu/f32/*/*.cu)) $(addprefix src/gpu/,convert.cu row_passes.cu) \
    profile/my_kernel.cu tests/support/large_tiles.cu $(patsubst %,src/bench/gpu/%.cu,accumulate naive)
F32_TILES := $(patsubst %,src/gpu/f32/forward/%_tiles.cu,register async woven drawn drawn_masked drawn_window) \
    $(addprefix src/gpu/f32/backward/,pairs.cu sums.cu) $(STEP_KERNELS)
MMA_SOURCES := $(patsubst %,src/gpu/%.cu,fixed/forward/mma_groups fixed16/forward/mma_pairs fixed16/forward/card_powers \
    half/forward/mma_half half/backward/mma_gradients half/backward/rows)
HOST_CU := $(PLANS) $(filter-out $(F32_SOURCES),$(wildcard src/gpu/*.cu src/gpu/*/*.cu src/library/*.cu) \
    $(wildcard profile/*.cu report/reference/*.cu) $(GPU_TESTS) tests/fuzz/gpu_side.cu \
    $(patsubst %,src/bench/gpu/%.cu,workbench summation start_up) $(filter-out $(STEP_KERNELS),$(STEP_GPU)))
REFERENCES := $(addprefix $(BUILD)/reference/,context_only plain_copy)
STYLED = $(shell find hw4.cu seq.cpp include src tests testcases judge profile report -regex '.*\.\(h\|c\|cpp\|cu\|cuh\)')

# Small files with kernels are compiled some together, under the name of a source that make writes: most of their time
# is that of their headers.
FILES_OF_src/gpu/small.cu := $(patsubst %,src/gpu/%.cu,convert row_passes f32/backward/first_steps \
    f32/backward/join fixed16/forward/card_powers)
FILES_OF_src/gpu/f32/rows.cu := $(patsubst %,src/gpu/f32/%.cu,forward/plain_rows forward/row_rungs \
    backward/plain_gradients backward/shared_gradients)
FILES_OF_src/gpu/f32/tiles.cu := $(patsubst %,src/gpu/f32/forward/%_tiles.cu,register async woven)
FILES_OF_src/gpu/f32/split.cu := $(patsubst %,src/gpu/f32/forward/split_%.cu,float fold)
FILES_OF_src/gpu/f32/pairs.cu := $(patsubst %,src/gpu/f32/backward/%.cu,pairs sums)
FILES_OF_src/gpu/fixed16/wgmma.cu := $(patsubst %,src/gpu/fixed16/forward/%.cu,wgmma_pairs wgmma_pairs_whole)
FILES_OF_src/gpu/half/mma.cu := $(patsubst %,src/gpu/half/%.cu,forward/mma_half backward/mma_gradients backward/rows)
FILES_OF_src/gpu/half/wgmma.cu := $(patsubst %,src/gpu/half/%.cu,forward/wgmma_steps forward/wgmma_half \
    backward/wgmma_gradients)
FILES_OF_src/step/gpu/linears.cu := $(patsubst %,src/step/gpu/%.cu,linear linear_back linear_weights)
FILES_OF_src/step/gpu/row_kernels.cu := $(STEP_ROWS)
FILES_OF_src/bench/gpu/kernels.cu := $(patsubst %,src/bench/gpu/%.cu,accumulate naive)
TOGETHER := $(sort $(patsubst FILES_OF_%,%,$(filter FILES_OF_%,$(.VARIABLES))))
IN_OTHERS := $(foreach name,$(TOGETHER),$(FILES_OF_$(name)))
units = $(filter-out $(IN_OTHERS),$(1)) $(foreach name,$(TOGETHER),$(if $(filter $(FILES_OF_$(name)),$(1)),$(name)))
objects = $(patsubst %,$(BUILD)/%.o,$(call units,$(1)))
hot_first = $(filter $(call objects,$(HOT)),$(1)) $(filter-out $(call objects,$(HOT)),$(filter %.o,$(1)))
, := ,
to_linker = $(addprefix $(if $(filter yes,$(CUDA)),-Xlinker ,-Wl$(,)),$(1))
ifeq ($(CUDA),yes)
# The files that take longest come first, so that none of them ends last.
LONGEST := $(patsubst %,src/%.cu,gpu/f32/forward/drawn_tiles gpu/f32/forward/drawn_masked_tiles \
    gpu/fixed/forward/wgmma_masked gpu/fixed/forward/mma_groups gpu/fixed16/wgmma gpu/f32/forward/drawn_window_tiles \
    gpu/half/forward/split_half gpu/fixed/forward/wgmma_shares gpu/fixed16/forward/mma_pairs gpu/f32/pairs gpu/f32/tiles \
    gpu/f32/split) $(SPLIT_KEYS) $(patsubst %,src/%.cu,step/gpu/linears gpu/half/mma \
    gpu/fixed16/forward/wgmma_pairs_masked gpu/half/wgmma gpu/fixed/forward/wgmma_groups)
GPU_OBJECTS := $(call objects,$(LONGEST) $(GPU_SOURCES) $(STEP_GPU) $(BENCH_GPU))
DEVICE_CODE := $(GENCODE)
COMPILE_CU = $(NVCC) $(HW4_NVCCFLAGS)
LINK_CU = $(NVCC) $(HW4_NVCCFLAGS) $(GENCODE) $(NVCC_LDFLAGS)
else
GPU_OBJECTS := $(call objects,$(NO_GPU))
LINK_CU = $(LINK_CPP)
endif
# The program's objects that PARTS keeps, and the replacements for the others.
LEFT_OUT := $(addprefix src/,bench/% step/% commands/bench% commands/train.cpp gpu/half/%) $(SPLIT_KEYS) \
    src/gpu/f32/forward/drawn_window_tiles.cu
parts_of = $(if $(filter all,$(PARTS)),$(1),$(filter-out $(call objects,$(LEFT_OUT)),$(1)) $(call objects,$(NO_COMMANDS)))
HW4_WITHOUT_RANKS := $(call parts_of,$(GPU_OBJECTS) $(call objects,$(HW4_HOST) hw4.cu)) \
    $(if $(filter yesattention,$(CUDA)$(PARTS)),$(call objects,$(NO_KERNELS)))
WITH_MPI := $(call objects,src/ranks/mpi.cpp)
HW4_OBJECTS := $(HW4_WITHOUT_RANKS) $(if $(filter yes,$(MPI)),$(WITH_MPI),$(call objects,src/ranks/without_mpi.cpp))
COMPILE_CPP = $(CXX) $(HW4_CXXFLAGS)
LINK_CPP := $(CXX) $(HW4_LDFLAGS)
PROGRAMS := $(HW4) $(BIN)/seq $(BIN)/testcases/generate $(BIN)/judge/compare
# generate looks for the table in its own folder.
PROGRAMS += $(if $(filter-out .,$(BIN)),$(BIN)/testcases/cases.tsv)

# Each of these runs its own make, soak several; two at once would compile the same files.
NESTED := run test judge profile gpu-check soak soak-kernels soak-faults soak-sizes sanitize tsan \
    fuzz test-x86 test-arm
ifneq ($(word 2,$(filter $(NESTED),$(MAKECMDGOALS)))$(filter soak,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

## all: build hw4, seq, testcases/generate and judge/compare (the default)
.PHONY: all programs
programs: $(PROGRAMS)
# A user's make without other goals takes all processors, as make run and make test do.
ifeq ($(MAKELEVEL)$(strip $(filter-out all,$(MAKECMDGOALS))),0)
all:
	@$(MAKE) --no-print-directory $(JOBS) all
else
all: programs
	@[ "$(CUDA)" = yes ] || echo "Built without the GPU engine: $(NO_CUDA_BECAUSE)."
	@$(if $(ARCHS_REMARK),echo $(call quoted,$(strip $(ARCHS_REMARK))))
endif

$(HW4): $(HW4_OBJECTS) $(BUILD)/setting/$(HW4)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_CU) $(call hot_first,$^) -o $@ $(LDLIBS) $(if $(filter yes,$(MPI)),$(MPI_LIBS))

## hw4-mpi: build build/hw4_mpi, hw4 with MPI for any value of MPI=, which the tests and make measure start with mpirun
.PHONY: hw4-mpi
hw4-mpi: $(if $(MPI_FOUND),$(BUILD)/hw4_mpi)
	$(if $(MPI_FOUND),,$(error make hw4-mpi needs $(MPICC), which was not found (Debian: openmpi-bin, libopenmpi-dev)))@:
$(BUILD)/hw4_mpi: $(HW4_WITHOUT_RANKS) $(WITH_MPI) $(BUILD)/setting/hw4_mpi
	$(call say,LINK,$@)
	$(Q)$(LINK_CU) $(call hot_first,$^) -o $@ $(LDLIBS) $(MPI_LIBS)

# The library is beside the tested programs where these are not in the usual folder.
LIBRARY_DIR := $(if $(filter-out .,$(BIN)),$(BIN),$(BUILD))
IN_LIBRARY := $(call objects,$(LIBRARY_HOST) $(if $(filter yes,$(CUDA)),$(LIBRARY_CUDA),src/library/no_device.cpp))
LIBRARY_OBJECTS := $(filter $(IN_LIBRARY),$(GPU_OBJECTS)) $(IN_LIBRARY)
EXAMPLES := $(addprefix $(LIBRARY_DIR)/,example_c example_cpp)
## lib: build build/libhw4.so and build/libhw4.a, whose interface is include/hw4.h
.PHONY: lib
lib: $(LIBRARY_DIR)/libhw4.so $(LIBRARY_DIR)/libhw4.a
$(LIBRARY_DIR)/libhw4.so: $(LIBRARY_OBJECTS) src/library/exports.map $(BUILD)/setting/$(LIBRARY_DIR)/libhw4.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(filter-out -pie,$(subst -Xcompiler -pie,,$(LINK_CU))) -shared $(call hot_first,$^) -o $@ $(call to_linker,-soname=libhw4.so.0 -z defs \
	    --version-script=src/library/exports.map) -lpthread -ldl
	@ln -sf libhw4.so $@.0
$(LIBRARY_DIR)/libhw4.a: $(LIBRARY_OBJECTS) $(BUILD)/setting/$(LIBRARY_DIR)/libhw4.a
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(call hot_first,$^)
# Compiled as a user would: C with the archive and the libraries that hw4.pc names, C++ with the shared library.
$(EXAMPLES): $(LIBRARY_DIR)/example_%: src/library/example.% include/hw4.h $(LIBRARY_DIR)/libhw4.so $(LIBRARY_DIR)/libhw4.a
	$(call say,CC,$@)
	$(Q)$(if $(filter %_c,$@),$(CC) -std=c99 -pedantic,$(CXX) -std=c++17) -Wall -Wextra -Werror -Iinclude $< -o $@ \
	    $(if $(filter %_c,$@),$(@D)/libhw4.a $(STATIC_LIBS),-L$(@D) -lhw4 -Wl$(,)-rpath$(,)'$$ORIGIN')

## python: build the wheel of the Python package hw4 into build/; pip install ./python builds and installs it
.PHONY: python
python: $(LIBRARY_DIR)/libhw4.so
	@cd python && HW4_BUILT_LIBRARY=$(abspath $<) $(PYTHON) -c 'import backend; print(backend.build_wheel("$(abspath $(BUILD))"))'

ifneq ($(BIN),.)
$(BIN)/testcases/cases.tsv: testcases/cases.tsv
	@mkdir -p $(@D)
	$(Q)cp $< $@
endif

$(BIN)/seq: $(call parts_of,$(call objects,$(CONTRACTS) $(COMMON) $(STEP) $(RANKS) src/run/case_files.cpp \
    src/run/case_options.cpp seq.cpp)) $(BUILD)/setting/$(BIN)/seq
$(BIN)/testcases/generate: $(call objects,testcases/generate.cpp $(COMMON))
$(BIN)/judge/compare: $(call objects,judge/compare.cpp $(COMMON))
$(BIN)/seq $(BIN)/testcases/generate $(BIN)/judge/compare:
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_CPP) $(filter %.o,$^) -o $@ $(LDLIBS)

$(WITH_MPI): $(BUILD)/mpi-command
# Private, because the flags would otherwise reach the prerequisites too.
$(WITH_MPI): private FILE_FLAGS := $(MPI_FLAGS)
$(BUILD)/src/cpu/f32/avx2.cpp.o: private FILE_FLAGS := -mavx2 -mfma
$(BUILD)/src/cpu/f32/avx512.cpp.o: private FILE_FLAGS := -mavx512f
$(BUILD)/src/cpu/fixed/avx2.cpp.o: private FILE_FLAGS := -mavx2 -mfma
$(BUILD)/src/cpu/fixed/avx_vnni.cpp.o: private FILE_FLAGS := -mavx2 -mfma -mavxvnni
$(BUILD)/src/cpu/fixed/avx512.cpp.o: private FILE_FLAGS := -mavx512f -mavx512bw -mavx512vnni
$(BUILD)/src/cpu/fixed/amx.cpp.o: private FILE_FLAGS := -mavx512f -mavx512bw -mamx-tile -mamx-int8
$(BUILD)/src/cpu/half/amx.cpp.o: private FILE_FLAGS := -mavx512f -mamx-tile -mamx-bf16
$(BUILD)/src/cpu/fixed/sdot.cpp.o: private FILE_FLAGS := -march=armv8.2-a+dotprod
$(BUILD)/src/cpu/fixed/smmla.cpp.o: private FILE_FLAGS := -march=armv8.2-a+i8mm
$(BUILD)/src/step/avx2.cpp.o: private FILE_FLAGS := -mavx2 -mfma -fno-math-errno
$(BUILD)/src/step/avx512.cpp.o: private FILE_FLAGS := -mavx512f -mfma -fno-math-errno
# Without errno a square root is one instruction, which vectorizes.
$(BUILD)/src/step/generic.cpp.o: private FILE_FLAGS := -fno-math-errno
# Common headers are precompiled for each optimisation level; g++ uses them only at the same level. Every file still
# includes what it needs: make lint compiles without precompiled headers.
STANDARD_HEADERS := algorithm array atomic chrono cmath condition_variable cstdint cstdio cstring functional map memory \
    mutex optional string thread utility vector
define with_headers # NAME, LEVEL, HEADERS, SOURCES
$(BUILD)/headers/$(1).h.gch: private LEVEL := $(2)
$(BUILD)/headers/$(1).h.gch: private HEADERS := $(3)
$(call objects,$(4)): $(BUILD)/headers/$(1).h.gch
$(call objects,$(4)): private LEVEL := $(2)
$(call objects,$(4)): private HEADER := $(BUILD)/headers/$(1).h
endef
$(BUILD)/headers/%.gch: Makefile $(BUILD)/cpp-command
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(HEADERS) > $(@:.gch=)
	$(call say,CXX,$(@F))
	$(Q)$(COMPILE_CPP) -x c++-header $(@:.gch=) -o $@
$(eval $(call with_headers,cold,$(COLD_LEVEL),$(STANDARD_HEADERS),$(COLD) hw4.cu seq.cpp \
    src/ranks/without_mpi.cpp $(NO_GPU) $(NO_COMMANDS) \
    $(filter-out $(GPU_TESTS),$(HOST_CU))))
# Files with flags of their own cannot use them.
$(eval $(call with_headers,hot,$(LEVEL),$(STANDARD_HEADERS),$(filter-out $(CPU_KERNELS) src/step/avx2.cpp \
    src/step/avx512.cpp src/step/generic.cpp,$(HOT)) testcases/generate.cpp judge/compare.cpp))
# The host's part of a file with kernels launches them and no more; the level is the host's alone.
$(call objects,$(filter-out $(HOST_CU),$(GPU_SOURCES) $(STEP_GPU) $(BENCH_GPU))): private LEVEL := -Og
# The tests' own code would take longer to optimise than to run, except in tests that compute; the tested code is the
# programs'.
$(eval $(call with_headers,tests,$(if $(INSTRUMENT),-O1,-O0 -U_FORTIFY_SOURCE),gtest/gtest.h $(STANDARD_HEADERS),\
    $(filter-out $(BUSY_TESTS),$(UNIT_TESTS)) $(if $(filter no,$(OPTIMIZE_GPU_TESTS)),$(GPU_TESTS))))
$(eval $(call with_headers,busy_tests,-O1,gtest/gtest.h $(STANDARD_HEADERS),$(BUSY_TESTS) \
    $(if $(filter no,$(OPTIMIZE_GPU_TESTS)),,$(GPU_TESTS))))
# The test compiles kernel files as a user would.
$(BUILD)/tests/unit/kernel_file_test.cpp.o: private FILE_FLAGS += -DHW4_HOST_COMPILER='"$(CXX)"'
$(call objects,$(wildcard src/gpu/*/*/wgmma_*.cu)): private DEVICE_CODE := $(GENCODE_WGMMA)
ifeq ($(CUDA),yes)
# Half precision is compared by a bound and has its own files; its kernels spell out which operations they mean.
$(call objects,$(wildcard src/gpu/half/*.cu src/gpu/half/*/*.cu)): private EXACT_DEVICE :=
$(call objects,$(filter-out $(F32_TILES),$(F32_SOURCES)) $(MMA_SOURCES)): private DEVICE_CODE := $(GENCODE_SAME)
$(call objects,$(F32_TILES)): private DEVICE_CODE := $(GENCODE_TILES)
# Its second kernel starts early, which takes code of 9.0 itself.
$(call objects,src/step/gpu/gains.cu): private DEVICE_CODE := $(GENCODE)
# Host code alone: compiling it for a GPU would produce nothing. GoogleTest's macros contain an else. The host compiler
# records the included files; nvcc would preprocess each file again for that.
$(call objects,$(HOST_CU)): private DEVICE_CODE := -x c++ -Xcompiler -Wno-dangling-else
$(call objects,$(HOST_CU)): private NOTE_INCLUDES = -Xcompiler -MMD,-MP,-MF,$(@:.o=.d)
$(BUILD)/tests/gpu/kernel_file_test.cu.o: private override NVCCFLAGS += -DHW4_MY_KERNEL='"$(BUILD)/my_kernel.so"'
endif

# The GPU kernels' names, for the answer of a build without them.
GPU_KERNEL_LISTS := $(wildcard src/gpu/*/kernels.cu)
GPU_KERNEL_NAMES := $(shell sed -n 's/^ *{"\([a-z0-9_]*\)",.*/\1/p' $(GPU_KERNEL_LISTS))
$(BUILD)/src/commands/engine_choice.cpp.o: $(GPU_KERNEL_LISTS)
$(BUILD)/src/commands/engine_choice.cpp.o: private FILE_FLAGS += -DHW4_GPU_KERNELS='"$(GPU_KERNEL_NAMES)"'

# The course's cases for hw4 bench --shape t28: {"t28", {4, 1, 16384, 64}}.
COURSE_CASES := $(shell awk -F'\t' '/^t[0-9]/ { printf "{\"%s\",{%s,1,%s,%s}},", $$1, $$2, $$3, $$4 }' testcases/cases.tsv)
$(BUILD)/src/bench/sweep.cpp.o: testcases/cases.tsv
$(BUILD)/src/bench/sweep.cpp.o: private FILE_FLAGS += -DHW4_COURSE_CASES='$(COURSE_CASES)'

define COMPILE_HOST
@mkdir -p $(@D)
$(call say,CXX,$<)
$(Q)$(COMPILE_CPP) $(HEADER:%=-include %) $(FILE_FLAGS) $(NOTE_INCLUDES) -c $< -o $@
endef
$(BUILD)/%.cpp.o: %.cpp Makefile $(BUILD)/cpp-command
	$(COMPILE_HOST)

# hw4.cu contains no CUDA: g++ compiles it, and every build uses the same object.
$(BUILD)/hw4.cu.o: private FILE_FLAGS := -x c++
$(BUILD)/hw4.cu.o: hw4.cu Makefile $(BUILD)/cpp-command
	$(COMPILE_HOST)

ifeq ($(CUDA),yes)
define COMPILE_DEVICE
@mkdir -p $(@D)
$(call say,NVCC,$<)
$(Q)$(COMPILE_CU) $(DEVICE_CODE) $(HEADER:%=-Xcompiler -include$(comma)%) $(NOTE_INCLUDES) -c $< -o $@
endef
$(BUILD)/%.cu.o: %.cu Makefile $(BUILD)/cu-command
	$(COMPILE_DEVICE)
$(TOGETHER:%=$(BUILD)/%): $(BUILD)/%: Makefile
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(FILES_OF_$*) > $@
$(TOGETHER:%=$(BUILD)/%.o): %.o: % Makefile $(BUILD)/cu-command
	$(COMPILE_DEVICE)

$(BUILD)/cu-command: private COMMANDS := $(COMPILE_CU) $(DEVICE_CODE); $(LINK_CU)
endif

# Each file changes when its command does: with another compiler, other flags or other architectures.
quoted = '$(subst ','\'',$(1))'
.PHONY: force
$(BUILD)/cpp-command: private COMMANDS := $(COMPILE_CPP); $(LINK_CPP)
$(BUILD)/mpi-command: private COMMANDS := $(MPI_FLAGS) $(MPI_LIBS)
SETTINGS := $(addprefix $(BUILD)/setting/,$(HW4) $(BIN)/seq hw4_mpi differential \
    $(LIBRARY_DIR)/libhw4.so $(LIBRARY_DIR)/libhw4.a)
$(SETTINGS): private COMMANDS := CUDA=$(CUDA) MPI=$(MPI) PARTS=$(PARTS)
$(addprefix $(BUILD)/,cpp-command cu-command mpi-command) $(SETTINGS): force
	@mkdir -p $(@D)
	@printf '%s\n' $(call quoted,$(COMMANDS)) | cmp -s - $@ || printf '%s\n' $(call quoted,$(COMMANDS)) > $@

## run: install what is missing, build most of hw4 into build/run, run it on a test case, check the bytes
.PHONY: run
run: | need-run
	@$(MAKE) --no-print-directory $(JOBS) $(RUN_PROGRAMS)
	@$(if $(ASKED),,echo "$(RUN_BIN)/hw4 is without bench, train and" \
	    "$(if $(PRESENT_ARCHS),some GPU kernels,GPU code); make builds the complete $(HW4).")
	@mkdir -p $(BUILD)/run
	$(RUN_BIN)/testcases/generate t04 $(BUILD)/run/t04.in
	$(RUN_BIN)/hw4 --time $(BUILD)/run/t04.in $(BUILD)/run/t04.out
	$(RUN_BIN)/seq $(BUILD)/run/t04.in $(BUILD)/run/t04.expected
	$(RUN_BIN)/judge/compare $(BUILD)/run/t04.in $(BUILD)/run/t04.expected $(BUILD)/run/t04.out

## test: install what is missing, build, run every test; GPU tests too where there is a GPU; TEST_ARGS=cli_test for some
.PHONY: test
test: | need-test
	@$(MAKE) --no-print-directory $(JOBS) $(TEST_PROGRAMS) tests
	@[ -z "$(CPU_ONLY)" ] || echo "No GPU here: the .cu files of src, tests, profile and report are not compiled;" \
	    "make CUDA=yes test compiles them."
	tests/run $(TEST_PLACES) $(TEST_ARGS)

.PHONY: tests
tests: $(BUILD)/unit_tests $(BUILD)/fault_shim.so $(BUILD)/differential $(if $(MPI_FOUND),$(BUILD)/hw4_mpi)
# A plain Python cannot load instrumented code.
tests: $(if $(INSTRUMENT),,lib $(EXAMPLES))
# No test runs what make run links in place of kernels.
tests: $(if $(filter yes,$(CUDA)),$(BUILD)/gpu_tests $(REFERENCES) $(call objects,$(NO_KERNELS)))

TEST_OBJECTS := $(call objects,$(HW4_HOST))

# The unit tests have no GPU engine in any build.
$(BUILD)/unit_tests: $(TEST_OBJECTS) $(call objects,$(NO_GPU) $(UNIT_SUPPORT) $(UNIT_TESTS) $(FUZZ_SOURCES))
	$(call say,LINK,$@)
	$(Q)$(LINK_CPP) $^ -o $@ -lgtest $(LDLIBS)

# Loaded before the C library into every program that a test starts, so it is never sanitized; and never fortified
# (Ubuntu's g++ does that by default), which would make pread an inline function of the headers.
$(BUILD)/fault_shim.so: tests/program/fault_shim.cpp Makefile
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) -std=c++17 -O2 -U_FORTIFY_SOURCE $(WARN) -shared -fPIC $< -o $@ -ldl

$(BUILD)/differential: $(GPU_OBJECTS) $(TEST_OBJECTS) $(call objects,$(DIFFERENTIAL)) $(BUILD)/setting/differential
	$(call say,LINK,$@)
	$(Q)$(LINK_CU) $(filter %.o,$^) -o $@ $(LDLIBS)

$(BUILD)/gpu_tests: $(GPU_OBJECTS) $(TEST_OBJECTS) $(call objects,$(GPU_TESTS) \
    $(addprefix tests/support/,main.cpp expected_by_cpu.cpp large_tiles.cu)) | $(BUILD)/my_kernel.so
	$(call say,LINK,$@)
	$(Q)$(LINK_CU) $^ -o $@ -lgtest $(LDLIBS)

# The example has the contract's flags too, so that the kernel rounds as the contract does.
## my-kernel: build build/my_kernel.so, the example of a kernel for hw4 --kernel-file; FILE=mine.cu for build/mine.so
FILE := profile/my_kernel.cu
MY_KERNEL := $(BUILD)/$(basename $(notdir $(FILE))).so
.PHONY: my-kernel
my-kernel: need-cuda $(if $(filter yes,$(CUDA)),$(MY_KERNEL))
$(MY_KERNEL): $(FILE) $(wildcard $(dir $(FILE))*.h $(dir $(FILE))*.cuh) src/gpu/hw4_kernel.h src/contracts/f32/forward.h \
    Makefile $(BUILD)/cu-command
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(COMPILE_CU) $(GENCODE_SAME) -shared $< -o $@

.PHONY: references
references: $(REFERENCES)
$(REFERENCES): $(BUILD)/reference/%: $(BUILD)/report/reference/%.cu.o $(BUILD)/src/gpu/fault.cu.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_CU) $^ -o $@

## profile: print Nsight Compute's counters of the GPU kernels (needs a GPU); CASES="t28 t10" KERNEL=chosen for some
.PHONY: profile
profile: | need-gpu
	@$(MAKE) --no-print-directory $(JOBS) all
	$(PYTHON) profile/profile --hw4 $(HW4) --json $(BUILD)/profile.json --kernel $(KERNEL) \
	    $(if $(CASES),--case $(CASES))

# Figures need the matplotlib of report/requirements.txt, whose version decides their bytes.
## report: build the pages of report/, their figures and parts of README from report/data (no GPU needed)
.PHONY: report
report:
	PYTHON="$(PYTHON)" report/with-matplotlib report/build

## report-check: fail when the committed pages and figures are not what report/data gives
.PHONY: report-check
report-check:
	PYTHON="$(PYTHON)" report/with-matplotlib --or-without report/build --check

## judge: run hw4 over all cases of testcases/cases.tsv; CASES="t01 t28" for some
.PHONY: judge
judge:
	@$(MAKE) --no-print-directory $(JOBS) all
	judge/judge --bin $(BIN) $(CASES)

# Each step runs make for the programs that it measures, in the folders where the programs of report/ look for them.
## measure: measure the files of report/measure --list again, into report/data (needs a GPU); MEASURE_ARGS="--only files" for some
.PHONY: measure
measure:
	@[ "$(BUILD) $(BIN)" = "build ." ] || { echo "make measure: not with another BUILD or BIN" >&2; exit 2; }
	$(PYTHON) report/measure $(MEASURE_ARGS)

## soak: all long tests: soak-kernels, soak-faults, soak-sizes, soak-differential
## soak-differential: every kernel of this machine against the references on random cases, for SOAK_SECONDS=600
.PHONY: soak soak-differential
soak: soak-kernels soak-faults soak-sizes soak-differential
soak-differential: $(BUILD)/differential
	$(BUILD)/differential --seconds $(SOAK_SECONDS)

# Crashes and new corpus files stay in build/fuzz. The limit on one allocation is far below the sizes that a header can
# claim.
## fuzz: the fuzzer of the case reader, for FUZZ_SECONDS=60 (needs clang with libFuzzer)
.PHONY: fuzz
fuzz:
	@echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' | \
	    $(FUZZ_CXX) -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null || \
	    { echo "make fuzz needs $(FUZZ_CXX) with libFuzzer (Debian: clang, libclang-rt-dev); FUZZ_CXX names another" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(JOBS) BUILD=build/fuzz CXX=$(FUZZ_CXX) CUDA=no SANITIZE=1 \
	    CXXFLAGS="$(CXXFLAGS) -fsanitize=fuzzer-no-link" build/fuzz/case_reader
	@mkdir -p build/fuzz/learnt build/fuzz/crashes
	build/fuzz/case_reader build/fuzz/learnt testcases/small -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	    -rss_limit_mb=1024 -malloc_limit_mb=64 -artifact_prefix=build/fuzz/crashes/

$(BUILD)/case_reader: $(call objects,$(FUZZ_SOURCES)) $(TEST_OBJECTS)
	$(COMPILE_CPP) -fsanitize=fuzzer $^ -o $@ $(LDLIBS)

# The parts of these tests that make test omits because they take minutes.
SOAK_kernels := unit_tests gpu_tests
SOAK_faults := fault_matrix_test fault_test
SOAK_sizes := size_test
## soak-kernels: the unit and GPU tests with all of their cases; make test computes some
## soak-faults: every way of running hw4 and seq with every call failing in turn, CUDA's too; a large file in little memory
## soak-sizes: cases of more than 4 GiB, of more than 2^31 numbers and of 262144 tokens
.PHONY: soak-kernels soak-faults soak-sizes
soak-kernels soak-faults soak-sizes: soak-%:
	@$(MAKE) --no-print-directory $(JOBS) $(TEST_PROGRAMS) tests
	HW4_SOAK=1 $(SLOW_TESTS) $(TEST_PLACES) $(SOAK_$*)

# Instrumented tests take many times as long.
SLOW_TESTS := HW4_TEST_SECONDS=1800 tests/run --step-seconds 7200

# Possible mistakes, all in one build, and for each the test that must fail (tests/mutants/list.txt).
MUTANT_ARGS ?=
## mutants: whether the tests notice more than a hundred mistakes, one at a time; MUTANT_ARGS=hw4.cu for some
.PHONY: mutants
mutants: | need-test
	$(PYTHON) tests/mutants/run $(MUTANT_ARGS)

# LEAKS=1 also looks for leaks; off by default, because that takes seconds for each of hundreds of processes.
## sanitize: the tests that need no GPU, under AddressSanitizer and UndefinedBehaviorSanitizer
.PHONY: sanitize
sanitize: | need-test
	@$(MAKE) --no-print-directory $(JOBS) all
	@$(MAKE) --no-print-directory $(JOBS) BUILD=build/sanitize BIN=build/sanitize/bin CUDA=no SANITIZE=1 all tests
	ASAN_OPTIONS=detect_leaks=$(LEAKS) $(SLOW_TESTS) --bin build/sanitize/bin --build build/sanitize --no-cuda \
	    --quick $(TEST_ARGS)

# The tests of processor-specific code, except tests that take seconds: an emulator is ten times as slow. qemu has
# neither AVX-512 nor AMX.
PROCESSOR_x86 := x86_64
PROCESSOR_arm := aarch64
PROCESSOR_TESTS := Backward.*:Cpu*/*:Dims/*:Exp2.*:Fixed*:Log2.*:Logsumexp.*:Machines/*
PROCESSOR_TESTS := $(PROCESSOR_TESTS):Types/*-Backward.AddsEvery*:Exp2.Every*:*APowerOfTwoOrASign*:Cpu/Each*OnEveryKind*
PROCESSOR_TESTS := $(PROCESSOR_TESTS):Cpu/Each*OnMixed*:Cpu/Each*AnyLength*:Cpu/Each*ALong*:Cpu/Each*Number*
PROCESSOR_TESTS := $(PROCESSOR_TESTS):Cpu/Each*Rounds*:Cpu/Each*SomeOf*:Cpu/CpuRun.*Cut*
# The processor where it is not this machine's. Its C library and zlib are in the folders of Debian's packages; its C++
# library may be elsewhere.
OTHER = $(filter-out $(MACHINE),$(PROCESSOR_$*))
FOR_OTHER = CXX=$(OTHER)-linux-gnu-g++ MACHINE=$(OTHER) CUDA=no MPI=no BUILD=build/$(OTHER) BIN=build/$(OTHER)/bin \
    LDFLAGS="$(LDFLAGS) -static-libstdc++ -static-libgcc"
ON_OTHER = --bin build/$(OTHER)/bin --build build/$(OTHER) --runner "qemu-$(OTHER) -cpu max"
## test-x86: the tests of contracts and CPU kernels on x86-64: on another processor with a cross compiler and qemu
## test-arm: the same on 64-bit ARM
.PHONY: test-x86 test-arm unit-tests
test-x86 test-arm: test-%: | need-test-%
	@$(MAKE) --no-print-directory $(JOBS) $(if $(OTHER),$(FOR_OTHER) all,$(TEST_PROGRAMS)) unit-tests
	$(SLOW_TESTS) $(if $(OTHER),$(ON_OTHER),$(TEST_PLACES)) --filter '$(PROCESSOR_TESTS)' \
	    unit_tests small_cases $(TEST_ARGS)
unit-tests: $(BUILD)/unit_tests
	@:

# Code with threads. The arithmetic, in one thread and twenty times as slow here, is left to `make sanitize`.
TSAN_UNIT_TESTS := BenchOnCpu*:CaseFile*:CaseValues*:*CpuRun*:Crew*:*EachKernel.DoesNot*:ExactRows*:InPieces*:Interrupt*
TSAN_UNIT_TESTS := $(TSAN_UNIT_TESTS):KeptData*:OnThreads*:Output*:PartQueue*:Pipeline*
TSAN_UNIT_TESTS := $(TSAN_UNIT_TESTS):SilentPipe*:SpanRecorder*:Staging*:Timeline*
# A signal ends the program without joining its threads, which is not a leak.
## tsan: the tests of CPU code with threads, bench included, and of the command line, under ThreadSanitizer
.PHONY: tsan
tsan: | need-test
	@$(MAKE) --no-print-directory $(JOBS) BUILD=build/tsan BIN=build/tsan/bin CUDA=no SANITIZE=thread all tests
	TSAN_OPTIONS="halt_on_error=1 report_thread_leaks=0" $(SLOW_TESTS) --bin build/tsan/bin --build build/tsan \
	    --no-cuda --filter '$(TSAN_UNIT_TESTS)' unit_tests cli_test fault_test small_cases $(TEST_ARGS)

# initcheck takes memory with marker values for initialized. Tests fill memory with them to show where it is read. More
# than 16 processes, each with a CUDA context, may lack the GPU's memory.
COMPUTE_SANITIZER = $(firstword $(shell command -v compute-sanitizer) $(dir $(NVCC))compute-sanitizer)
## gpu-check: compute-sanitizer's four tools over their GPU tests (needs a GPU)
.PHONY: gpu-check
gpu-check: | need-gpu
	@$(MAKE) --no-print-directory $(JOBS) all tests
	failed=0 jobs=$$(nproc); \
	for tool in racecheck 'memcheck --leak-check full' synccheck initcheck; do \
	    HW4_POISON=$$([[ $$tool = initcheck ]] && echo 0 || echo 1) HW4_TEST_SECONDS=0 tests/run --build $(BUILD) \
	        --filter '*Sanitizer*:*PitchedMatrix*Copies*' --jobs $$((jobs < 16 ? jobs : 16)) \
	        --runner "$(COMPUTE_SANITIZER) --tool $$tool --error-exitcode 99" gpu_tests || failed=1; \
	done; exit $$failed

## lint: clang-tidy and cppcheck over the host code and the tests' C++; LINT_FILES="seq.cpp hw4.cu" for some
.PHONY: lint
lint: | need-test
	@tests/lint $(LINT_FILES)

## format: lay the sources out with clang-format; format-check only looks
.PHONY: format format-check
format:
	@clang-format -i $(STYLED)
format-check:
	@clang-format --dry-run -Werror $(STYLED)

# Installed names differ from the build's: most machines have another seq and another compare.
INSTALLED := hw4 hw4-seq hw4-compare
BUILT_hw4 := $(HW4)
BUILT_hw4-seq := $(BIN)/seq
BUILT_hw4-compare := $(BIN)/judge/compare
PAGES := $(INSTALLED) hw4-bench hw4-train
SHARE := $(DESTDIR)$(PREFIX)/share
MAN := $(SHARE)/man/man1
COMPLETED := $(INSTALLED) judge
COMPLETIONS := $(SHARE)/bash-completion/completions
ZSH := $(SHARE)/zsh/site-functions
FISH := $(SHARE)/fish/vendor_completions.d
LIB := $(DESTDIR)$(PREFIX)/lib
INCLUDE := $(DESTDIR)$(PREFIX)/include
MAN3 := $(SHARE)/man/man3
## install: hw4, hw4-seq, hw4-compare and libhw4 with man pages and shell completion under PREFIX (/usr/local), in DESTDIR if given
.PHONY: install uninstall
install: all lib $(PAGES:%=$(BUILD)/man/%.1) $(BUILD)/man/hw4.3 $(BUILD)/hw4.pc
	install -d $(call quoted,$(DESTDIR)$(PREFIX)/bin) $(call quoted,$(MAN)) $(call quoted,$(COMPLETIONS))
	$(foreach name,$(INSTALLED),install $(BUILT_$(name)) $(call quoted,$(DESTDIR)$(PREFIX)/bin/$(name)) && ):
	install -m 644 $(PAGES:%=$(BUILD)/man/%.1) $(call quoted,$(MAN))
	install -d $(call quoted,$(ZSH)) $(call quoted,$(FISH))
	install -m 644 src/install/completion.zsh $(call quoted,$(ZSH)/_hw4)
	$(foreach name,$(COMPLETED),install -m 644 src/install/completion.bash $(call quoted,$(COMPLETIONS)/$(name)) && \
	    install -m 644 src/install/completion.fish $(call quoted,$(FISH)/$(name).fish) && ):
	install -d $(call quoted,$(LIB)/pkgconfig) $(call quoted,$(INCLUDE)) $(call quoted,$(MAN3))
	install -m 644 include/hw4.h $(call quoted,$(INCLUDE))
	install -m 644 $(LIBRARY_DIR)/libhw4.a $(call quoted,$(LIB))
	install $(LIBRARY_DIR)/libhw4.so $(call quoted,$(LIB)/libhw4.so.0)
	ln -sf libhw4.so.0 $(call quoted,$(LIB)/libhw4.so)
	install -m 644 $(BUILD)/hw4.pc $(call quoted,$(LIB)/pkgconfig)
	install -m 644 $(BUILD)/man/hw4.3 $(call quoted,$(MAN3))

## uninstall: remove what `make install` with the same PREFIX and DESTDIR has installed
uninstall:
	rm -f $(foreach name,$(INSTALLED),$(call quoted,$(DESTDIR)$(PREFIX)/bin/$(name))) $(call quoted,$(ZSH)/_hw4) \
	    $(foreach name,$(COMPLETED),$(call quoted,$(COMPLETIONS)/$(name)) $(call quoted,$(FISH)/$(name).fish)) \
	    $(foreach name,$(PAGES),$(call quoted,$(MAN)/$(name).1))
	rm -f $(foreach name,libhw4.a libhw4.so libhw4.so.0 pkgconfig/hw4.pc,$(call quoted,$(LIB)/$(name))) \
	    $(call quoted,$(INCLUDE)/hw4.h) $(call quoted,$(MAN3)/hw4.3)

VERSION := $(shell sed -n 's/.*kVersion = "\(.*\)".*/\1/p' src/base/version.h)
# Generated from the program's own help.
SAY_HELP_hw4-bench := $(BUILT_hw4) bench --help
SAY_HELP_hw4-train := $(BUILT_hw4) train --help
$(foreach name,$(INSTALLED),$(eval SAY_HELP_$(name) := $(BUILT_$(name)) --help))
SAY_HELP_hw4 := $(BUILT_hw4) help all
$(addprefix $(BUILD)/man/,hw4.1 hw4-bench.1 hw4-train.1): $(BUILT_hw4)
$(BUILD)/man/hw4-seq.1: $(BUILT_hw4-seq)
$(BUILD)/man/hw4-compare.1: $(BUILT_hw4-compare)
$(PAGES:%=$(BUILD)/man/%.1): $(BUILD)/man/%.1: src/install/man_page src/base/version.h
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)$(SAY_HELP_$*) | src/install/man_page $* "$(VERSION)" > $@
STATIC_LIBS := $(if $(filter yes,$(CUDA)),-L$(patsubst %/bin/nvcc,%/lib64,$(NVCC)) -lcudart_static -lrt )-lstdc++ -lpthread -ldl -lm
# Generated from the header.
$(BUILD)/man/hw4.3: include/hw4.h src/install/man_page src/base/version.h
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)src/install/man_page hw4.3 "$(VERSION)" < $< > $@
$(BUILD)/hw4.pc: src/base/version.h force
	@mkdir -p $(@D)
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'Name: hw4' 'Description: attention whose bytes are defined' \
	    'Version: $(VERSION)' 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -lhw4' \
	    'Libs.private: $(STATIC_LIBS)' > $@

## clean: remove everything that was built
.PHONY: clean
clean:
	rm -rf build hw4 seq testcases/generate judge/compare

# Targets that need a GPU say in one line that there is none, before anything is compiled.
.PHONY: need-cuda need-gpu
need-cuda:
	$(if $(filter yes,$(CUDA)),,$(error make $(firstword $(MAKECMDGOALS)) needs CUDA: $(NO_CUDA_BECAUSE)))@:
need-gpu: need-cuda
	$(if $(PRESENT_ARCHS),,$(error make $(firstword $(MAKECMDGOALS)) needs a GPU: nvidia-smi finds none))@:

# Missing dependencies of a target are installed by apt where that is allowed, or named.
NEEDS := $(addprefix need-,run test test-x86 test-arm)
.PHONY: $(NEEDS)
$(NEEDS): need-%:
	@.ci/need $*

## help: this list
.PHONY: help
help:
	@(sed -n 's/^## \([a-z0-9-]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)); echo; echo 'settings, for any of them:'; \
	    sed -n '/^#   make /{s///;s/   */\t/;p}' $(firstword $(MAKEFILE_LIST))) | awk -F'\t' 'NF < 2 { print; next } \
	    { line = sprintf("  make %-17s", $$1); count = split($$2, words, " "); for (i = 1; i <= count; ++i) { \
	      if (length(line words[i]) > 79) { print line; line = sprintf("%24s", "") } line = line " " words[i] } print line }'

-include $(patsubst %.o,%.d,$(HW4_OBJECTS) $(LIBRARY_OBJECTS) $(WITH_MPI) $(TEST_OBJECTS) $(call objects,seq.cpp testcases/generate.cpp \
    judge/compare.cpp $(UNIT_SUPPORT) tests/support/expected_by_cpu.cpp $(UNIT_TESTS) $(FUZZ_SOURCES) $(DIFFERENTIAL) $(GPU_TESTS) $(GPU_SOURCES) $(STEP_GPU) $(BENCH_GPU) \
    tests/support/large_tiles.cu $(wildcard profile/*.cu) $(wildcard report/reference/*.cu) $(NO_GPU) $(NO_KERNELS)))
