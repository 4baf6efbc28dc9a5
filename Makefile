# What `sam build` calls for each function. With cargo-lambda on the PATH the binary runs on every Amazon Linux 2023;
# plain cargo does where the machine's glibc is 2.34 or older, which the last line checks.
BUILDER ?= $(if $(shell command -v cargo-lambda),cargo lambda build --skip-target-check,cargo build)
TARGET := $(or $(CARGO_TARGET_DIR),target)
GLIBC_MAX := 2.34

build-ProvisionFunction: NAME := provision
build-LifecycleFunction: NAME := lifecycle
build-DisruptFunction: NAME := disrupt
build-RefreshFunction: NAME := refresh
build-InterruptFunction: NAME := interrupt

# All functions are built for each of them, in one step that costs nothing the second and third time, and with the features that
# the whole workspace asks of what they share: with other features aws-sdk-ec2 would be compiled once more.
build-%:
	$(BUILDER) --release --locked --workspace --bin provision --bin lifecycle --bin disrupt --bin refresh --bin interrupt
	cp $$(ls -t $(TARGET)/lambda/$(NAME)/bootstrap $(TARGET)/release/$(NAME) 2>/dev/null | head -n 1) $(ARTIFACTS_DIR)/bootstrap
	strip $(ARTIFACTS_DIR)/bootstrap
	@needed=$$(objdump -T $(ARTIFACTS_DIR)/bootstrap | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -V | tail -n 1); \
	if [ "$$(printf '%s\n%s\n' $$needed $(GLIBC_MAX) | sort -V | tail -n 1)" != "$(GLIBC_MAX)" ]; then \
		echo "The binary needs glibc $$needed, Lambda has $(GLIBC_MAX). Install cargo-lambda (pip install cargo-lambda) and build again." >&2; exit 1; \
	fi
