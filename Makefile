# Two commands matter: `make run` and `make test`. The rest is for those who change Bowline.

SHELL := /bin/bash
CARGO ?= cargo
DATA ?= $(HOME)/.local/share/bowline
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 3600
SIM_MINUTES ?= 5
KILLS_SEEDS ?= 50
COVERAGE_SEEDS ?= 1000

.PHONY: run build test test-tools sim sim-planted sim-speed sim-coverage soak soak-one kills demo lint fmt bench fuzz mutants

run: ## Build and start server, worker and page, with the example tasks.
	$(CARGO) build --release --locked -p bowline
	./target/release/bowline up --data "$(DATA)" --tasks examples

build:
	$(CARGO) build --release --locked -p bowline

# Tests with real processes wait more than they compute, so more of them than there are cores run at a time. They run once with SQLite and
# once with PostgreSQL, except for those that have PostgreSQL whatever is said, or no store at all.
PROCESSES = package(bowline) & kind(test)
WAITING = --test-threads $$((2 * $$(nproc)))

test: lint test-tools ## Everything that must hold before a change lands.
	@mkdir -p target; export BOWLINE_SKIPPED=$(CURDIR)/target/skipped; rm -f "$$BOWLINE_SKIPPED"; \
	if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run --locked --workspace -E 'not ($(PROCESSES))' \
		&& $(CARGO) nextest run --locked --workspace -E '$(PROCESSES)' $(WAITING) \
		&& BOWLINE_TEST_STORE=postgres $(CARGO) nextest run --locked --workspace $(WAITING) \
			-E '$(PROCESSES) & not test(/^(cluster|demo|map)::/)'; \
	else $(CARGO) test --locked --workspace \
		&& BOWLINE_TEST_STORE=postgres $(CARGO) test --locked --workspace --test e2e --test recovery -- --skip cluster::; fi; \
	status=$$?; \
	if [ -s "$$BOWLINE_SKIPPED" ]; then echo "skipped, for want of means on this machine:"; sort -u "$$BOWLINE_SKIPPED" | sed 's/^/  /'; fi; \
	exit $$status

# What tests want beyond Rust, by the names of Debian's packages. Without `faketime` they say what they skip; those of PostgreSQL
# and PgBouncer always run, and fail without them. Their packages would start servers of their own, which nobody here wants.
test-tools:
	@ls /usr/lib*/faketime/libfaketime.so.1 /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null | grep -q . \
	|| { [ "$$(id -u)" = 0 ] && apt-get install -y -qq faketime >/dev/null 2>&1; } \
	|| echo "tests of clock steps will be skipped; to run them: apt-get install faketime"
	@ls "$$(pg_config --bindir 2>/dev/null)"/postgres /usr/lib/postgresql/*/bin/postgres 2>/dev/null | grep -q . \
	|| { [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && apt-get update -qq >/dev/null 2>&1 \
		&& apt-get install -y -qq postgresql-common >/dev/null 2>&1 \
		&& echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
		&& apt-get install -y -qq postgresql-15 >/dev/null 2>&1; } \
	|| echo "tests of PostgreSQL will fail; to run them: apt-get install postgresql-15"
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && export DEBIAN_FRONTEND=noninteractive && apt-get update -qq >/dev/null 2>&1 \
		&& { [ -e /usr/sbin/policy-rc.d ] || { trap 'rm -f /usr/sbin/policy-rc.d' EXIT; \
			printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d; }; } \
		&& apt-get install -y -qq pgbouncer >/dev/null 2>&1; } \
	|| echo "tests of connection poolers will fail; to run them: apt-get install pgbouncer"

sim: ## A simulated cluster with everything that fails: fresh seeds for SIM_MINUTES, or SEED=n again, with SIM="--trace" and so on.
	$(CARGO) build --release --locked -p sim
	./target/release/sim $(if $(SEED),--seed $(SEED),$(if $(findstring --case,$(SIM)),,--minutes $(SIM_MINUTES) --jobs 2)) $(SIM)

sim-planted: ## Plants bugs, one at a time, and shows that the simulator finds each from a fresh seed; writes docs/planted.md.
	$(CARGO) build --release --locked -p sim --features planted
	./target/release/sim --planted all --write $(if $(SEED),--seed $(SEED)) $(SIM)

sim-speed: ## How many hours of three servers and twenty workers one core simulates in a minute.
	$(CARGO) build --release --locked -p sim
	./target/release/sim --seed 1 --count 40 --jobs 1 --servers 3 --hosts 20 --keep-going --shrink 0 | tail -2

# Profiles lie in a folder of their own: one run leaves one.
sim-coverage: ## Which regions of what decides COVERAGE_SEEDS worlds reach; SIM="--missed" shows the others.
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/coverage/rustc.sh CARGO_TARGET_DIR=target/coverage $(CARGO) build --release --locked -p sim
	rm -rf target/coverage/profiles
	-LLVM_PROFILE_FILE=target/coverage/profiles/one.profraw ./target/coverage/release/sim \
		--seed 1 --count $(COVERAGE_SEEDS) --jobs 2 --keep-going --shrink 0
	-LLVM_PROFILE_FILE=target/coverage/profiles/lost.profraw ./target/coverage/release/sim --with lose-commits \
		--seed 1 --count $(COVERAGE_SEEDS) --jobs 2 --keep-going --shrink 0
	-LLVM_PROFILE_FILE=target/coverage/profiles/flaky.profraw ./target/coverage/release/sim --with flaky \
		--seed 1 --count $(COVERAGE_SEEDS) --jobs 2 --keep-going --shrink 0
	$(CARGO) run --release --locked --manifest-path coverage/Cargo.toml --target-dir target/coverage/reader -- \
		target/coverage/release/sim target/coverage/profiles $(SIM)

soak: ## Kills and freezes at random for SOAK_SECONDS (an hour): three servers, ten workers and their PostgreSQL; prints its seed, and leaves target/soak.md.
	BOWLINE_CHAOS_SECONDS=$(SOAK_SECONDS) BOWLINE_CHAOS_REPORT=$(CURDIR)/target/soak.md \
		$(CARGO) test --locked -q -p bowline --test recovery cluster::chaos:: -- --nocapture

soak-one: ## The same with one server and one worker, cuts included, with a new seed again and again; a failure prints its seed.
	@end=$$((SECONDS + $(SOAK_SECONDS))); while ((SECONDS < end)); \
	do $(CARGO) test --locked -q -p bowline --test recovery chaos:: -- --skip cluster:: || exit 1; done

kills: ## Kills the server in the midst of a job of five hundred steps, with KILLS_SEEDS seeds.
	BOWLINE_KILLS=$(KILLS_SEEDS) $(CARGO) test --locked -q -p bowline --test recovery kills -- --nocapture

demo: build ## Kills server and worker in the middle of a job, and shows that no line is lost.
	@BOWLINE=./target/release/bowline scripts/demo.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --all

bench: build ## Figures against the limits of this machine; prints a table and JSON.
	$(CARGO) run --release --locked -p bench -- --bowline ./target/release/bowline

fuzz: ## Look for inputs that break the readers; wants a nightly compiler and cargo-fuzz. See fuzz/README.md.
	cd fuzz && for target in task template link pack; do \
		$(CARGO) +nightly fuzz run $$target -- -dict=dictionaries/$$target.dict -max_total_time=$(FUZZ_SECONDS) \
			-max_len=8192 -rss_limit_mb=2048 -timeout=10 || exit 1; \
	done

# Properties and purity are the slow tests: what the others notice needs them not, so they look at the rest only.
mutants: ## Break the engine in a thousand small ways, and see that its tests notice each; half an hour. See docs/mutants.md.
	@$(CARGO) mutants --version >/dev/null 2>&1 || { echo "this needs cargo-mutants: cargo install --locked cargo-mutants"; exit 1; }
	-nice $(CARGO) mutants --package engine --output target -- --lib --tests -- --skip properties:: --skip purity::
	nice $(CARGO) mutants --package engine --output target --iterate -- --lib --tests
