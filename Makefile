# Shortcuts for common tasks; cargo does the actual work.

PREFIX ?= /usr
SYSCONFDIR ?= /etc
DESTDIR ?=
BUILD ?= target/release
DIRECTORIES = $(foreach name,UNITS ZSH_COMPLETIONS,$(if $($(name)),$(name)='$($(name))'))
# The programs of packages.
DIST = holo-agent holo-build holo-bundle holo-fleet holo-secret

# What is installed without packages.
INSTALLED = --workspace --exclude holo-build --exclude holo-fleet

# Tests of the dispatcher that kill processes or take minutes.
SLOW = crash disturbed growth paths plugin_check sessions shell_plugins together webapp

.PHONY: all build test quick check oldest-rust advisories mutants fuzz tour programs bench bench-quick book install uninstall deb rpm arch dist

all: build

build:
	cargo build --release $(INSTALLED)

test:
	cargo test --workspace --no-fail-fast

# Unit tests, and the fast tests of the dispatcher: less than a minute on four cores, not counting the build.
quick:
	cargo build --quiet $(INSTALLED)
	cargo test --quiet $(INSTALLED) --lib --bins
	cargo test --quiet -p holo --test architecture --test house
	cargo test --quiet -p holo --test it -- $(SLOW:%=--skip '[%]')

# All of these must pass before a commit.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	mandoc -T lint -W warning man/*
	cargo deny --workspace --log-level error check licenses bans sources

# Builds everything with the Rust that Cargo.toml states, before a release. Clippy knows which parts of the standard library it has, but not
# which parts of the language.
STATED = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

oldest-rust:
	rustup toolchain install $(STATED) --profile minimal --no-self-update
	cargo +$(STATED) check --workspace --locked --quiet --target-dir target/rust-$(STATED)
	rm -r target/rust-$(STATED)

# Checks dependencies against the advisory database on GitHub. If that cannot be fetched, this is reported, but is not a failure.
advisories:
	@if cargo deny --log-level off fetch db; then \
	    cargo deny --workspace --log-level error check advisories; \
	else \
	    echo 'The database of advisories cannot be fetched from here, so dependencies were not checked against it'; \
	fi

# Each mutation that cargo-mutants makes in these files must make a test fail: the plan, refreshes, versions of packages, the change engine.
# Only the tests of the same crate are run, which take seconds. .cargo/mutants.toml lists exclusions; missed mutants are in
# target/mutants/*/mutants.out.
CHANGE = crates/holo-change/src
MUTANTS = nice -n 10 cargo mutants -j1 --timeout 120 --no-times

mutants:
	status=0; \
	$(MUTANTS) -o target/mutants/plan -p holo -f src/plan.rs -f src/plan/refresh.rs -- --lib || status=$$?; \
	$(MUTANTS) -o target/mutants/versions -p holo-packages -f 'plugins/packages/src/version.rs' \
	    -- --test it versions || status=$$?; \
	$(MUTANTS) -o target/mutants/change -p holo-change -f $(CHANGE)/group.rs -f $(CHANGE)/base_store.rs \
	    -f $(CHANGE)/tracked.rs -f '$(CHANGE)/tracked/*.rs' -- --lib || status=$$?; \
	exit $$status

# Tries mutated inputs for everything that parses foreign bytes.
fuzz:
	cargo build --workspace
	HOLO_FUZZ_SECONDS=$${HOLO_FUZZ_SECONDS:-600} cargo test --workspace --no-fail-fast --lib -- panic
	HOLO_FUZZ_SECONDS=$${HOLO_FUZZ_SECONDS:-600} cargo test -p holo --test it -- fuzz

tour:
	cargo build --release
	examples/tour

# The dispatcher and the plugins as in packages, for measurements.
PROGRAMS = target/dist/programs

programs:
	cargo build --profile dist -p holo-bundle
	mkdir -p $(PROGRAMS)
	for name in holo $$(sed -n 's/^holo .*plugin:\([a-z-]*\) .*/holo-\1/p' packaging/contents); do ln -sf ../holo-bundle $(PROGRAMS)/$$name; done

# Measures everything, or in less than ten minutes only smaller sizes, once. benches/README.md describes both.
bench bench-quick: export HOLO_TEST_BIN_DIR = $(CURDIR)/$(PROGRAMS)
BENCH = cargo bench --bench speed -- --write benches/RESULTS.md

bench: programs
	benches/peers
	$(BENCH) --summary README.md
	HOLO_TEST_GROWTH='$(CURDIR)/benches/RESULTS.md' cargo test -p holo --test it -- '[growth]'

bench-quick: programs
	benches/peers
	$(BENCH) --at-most 1000 --rounds 1

# Builds the book of docs/ as target/book/html. MDBOOK is the program.
book:
	docs/make-book $(MDBOOK)

# Installs the release build: `make build && sudo make install`. Packagers set DESTDIR. `holo-build` and `holo-fleet` are installed if they
# were built, by `cargo build --release -p holo-build -p holo-fleet`. packaging/contents lists the files.
install uninstall:
	DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' BUILD='$(BUILD)' $(DIRECTORIES) \
	    packaging/install $(if $(filter uninstall,$@),--uninstall) holo holo-bridges holo-agent \
	    $(foreach name,holo-build holo-fleet,$(if $(filter uninstall,$@)$(wildcard $(BUILD)/$(name)),$(name)))

# Packages for Debian, RPM and pacman, in target/packages.
deb rpm arch: dist
	packaging/package $@ target/packages

dist:
	cargo build --profile dist $(DIST:%=-p %)
