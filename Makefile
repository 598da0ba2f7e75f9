# Two commands matter: `make run` and `make test`. The rest is for those who change Bowline.

SHELL := /bin/bash
CARGO ?= cargo
DATA ?= $(HOME)/.local/share/bowline

.PHONY: run build test lint fmt bench check-deps

run: ## Build and start server, worker and page, with the example tasks.
	$(CARGO) build --release --locked -p bowline
	./target/release/bowline up --data "$(DATA)" --tasks examples

build:
	$(CARGO) build --release --locked -p bowline

test: lint ## Everything that must hold before a change lands.
	@if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run --locked --workspace; \
	else $(CARGO) test --locked --workspace; fi

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --all

bench: build ## Figures against the limits of this machine; prints a table and JSON.
	$(CARGO) run --release --locked -p bench -- --bowline ./target/release/bowline
