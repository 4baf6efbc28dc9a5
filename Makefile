# What `sam build` calls for each function. Lambda runs them on the processors that the parameter Architecture names, x86_64 or arm64; the
# build is told by the variable ARCHITECTURE. With cargo-lambda on the PATH the binary is made for that on any machine, for every Amazon
# Linux 2023, and stripped. Plain cargo makes it for the machine's own kind, so that must be Linux on the same processor, with a glibc of
# 2.34 or older, which the last line checks.
ARCHITECTURE ?= x86_64
KIND := $(if $(filter x86_64,$(ARCHITECTURE)),x86_64,$(if $(filter arm64,$(ARCHITECTURE)),aarch64))
HOST := $(shell uname -sm)
LIKE_LAMBDA := $(filter Linux-$(KIND),$(subst $() ,-,$(HOST)))
FOR_LAMBDA := $(if $(filter arm64,$(ARCHITECTURE)),--arm64,--x86-64)
# Where no foreign target has to be there, cargo-lambda need not ask rustup for one. The machine's own strip may know no other kind.
LAMBDA_BUILDER := cargo lambda build $(FOR_LAMBDA) $(if $(LIKE_LAMBDA),--skip-target-check) --config 'profile.release.strip="symbols"'
BUILDER ?= $(if $(shell command -v cargo-lambda),$(LAMBDA_BUILDER),cargo build)
BY_CARGO := $(if $(findstring lambda,$(BUILDER)),,yes)
TARGET := $(or $(CARGO_TARGET_DIR),target)
GLIBC_MAX := 2.34

build-ProvisionFunction: NAME := provision
build-LifecycleFunction: NAME := lifecycle
build-DisruptFunction: NAME := disrupt
build-RefreshFunction: NAME := refresh
build-InterruptFunction: NAME := interrupt

# All functions are built for each of them, in one step that costs nothing the second and third time, and with the features that
# the whole workspace asks of what they share: with other features aws-sdk-ec2 would be compiled once more.
build-%: can-build
	$(BUILDER) --release --locked --workspace --bin provision --bin lifecycle --bin disrupt --bin refresh --bin interrupt
	cp $(TARGET)/$(if $(BY_CARGO),release/$(NAME),lambda/$(NAME)/bootstrap) $(ARTIFACTS_DIR)/bootstrap
	$(if $(BY_CARGO),strip $(ARTIFACTS_DIR)/bootstrap)
	$(if $(BY_CARGO),@$(check-glibc))

.PHONY: can-build
can-build:
	@if [ -z "$(KIND)" ]; then echo "ARCHITECTURE is \"$(ARCHITECTURE)\"; allowed: x86_64 or arm64, as the parameter Architecture" >&2; exit 1; fi
	@if [ -n "$(BY_CARGO)" ] && [ -z "$(LIKE_LAMBDA)" ]; then \
		echo "This machine is $(HOST), Lambda's is Linux $(KIND). Install cargo-lambda (pip install cargo-lambda) and build again." >&2; exit 1; \
	fi

define check-glibc
needed=$$(objdump -T $(ARTIFACTS_DIR)/bootstrap | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -V | tail -n 1); \
	if [ "$$(printf '%s\n%s\n' $$needed $(GLIBC_MAX) | sort -V | tail -n 1)" != "$(GLIBC_MAX)" ]; then \
		echo "The binary needs glibc $$needed, Lambda has $(GLIBC_MAX). Install cargo-lambda (pip install cargo-lambda) and build again." >&2; exit 1; \
	fi
endef
