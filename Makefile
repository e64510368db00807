# Shortcuts for common tasks; cargo does the actual work.

PREFIX ?= /usr
SYSCONFDIR ?= /etc
DESTDIR ?=
PLUGINS = $(notdir $(wildcard plugins/*))
BUILD = target/release
UNITS ?= $(PREFIX)/lib/systemd/system
# Debian's zsh reads completions of packages from vendor-completions; all others, and all zshs in /usr/local, from site-functions.
ZSH_COMPLETIONS ?= $(PREFIX)/share/zsh/$(if $(and $(filter /usr,$(PREFIX)),$(wildcard /etc/debian_version)),vendor-completions,site-functions)

# Tests of the dispatcher that kill processes or take minutes.
SLOW = crash disturbed paths plugin_check sessions shell_plugins together webapp

.PHONY: all build test quick check advisories mutants fuzz tour bench install

all: build

build:
	cargo build --release

test:
	cargo test --workspace --no-fail-fast

# Unit tests, and the fast tests of the dispatcher: less than a minute on four cores, not counting the build.
quick:
	cargo build --quiet
	cargo test --quiet --lib --bins
	cargo test --quiet -p holo --test architecture --test house
	cargo test --quiet -p holo --test it -- $(SLOW:%=--skip '[%]')

# All of these must pass before a commit.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	mandoc -T lint -W warning man/*
	cargo deny --workspace --log-level error check licenses bans sources

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

tour: build
	examples/tour

bench: build
	cargo bench --bench speed -- --write benches/RESULTS.md --summary README.md

# Installs the release build: `make build && sudo make install`. Packagers set DESTDIR. holo-build is installed if it was built, by
# `cargo build --release -p holo-build`.
install:
	install -D -m 0755 $(BUILD)/holo '$(DESTDIR)$(PREFIX)/bin/holo'
	install -D -m 0755 $(BUILD)/holo-agent '$(DESTDIR)$(PREFIX)/bin/holo-agent'
	install -D -m 0755 $(BUILD)/holo-secret '$(DESTDIR)$(PREFIX)/bin/holo-secret'
	[ ! -e $(BUILD)/holo-build ] || install -D -m 0755 $(BUILD)/holo-build '$(DESTDIR)$(PREFIX)/bin/holo-build'
	install -d -m 0755 '$(DESTDIR)$(UNITS)'
	for unit in units/*; do \
	    sed 's|/usr/bin/|$(PREFIX)/bin/|' $$unit >'$(DESTDIR)$(UNITS)'/$${unit##*/} || exit 1; \
	done
	for plugin in $(PLUGINS); do \
	    install -D -m 0755 $(BUILD)/holo-$$plugin '$(DESTDIR)$(PREFIX)/lib/holo'/holo-$$plugin && \
	    install -d -m 0755 '$(DESTDIR)$(PREFIX)/share/holo'/$$plugin '$(DESTDIR)/var/lib/holo'/$$plugin || exit 1; \
	done
	install -D -m 0755 $(BUILD)/holo-probe '$(DESTDIR)$(PREFIX)/lib/holo/holo-probe'
	install -d -m 0755 '$(DESTDIR)$(PREFIX)/share/holo/generators' '$(DESTDIR)$(SYSCONFDIR)/holorc.d'
	[ -e '$(DESTDIR)$(SYSCONFDIR)/holorc' ] || install -m 0644 holorc '$(DESTDIR)$(SYSCONFDIR)/holorc'
	for snippet in holorc.d/*; do install -m 0644 $$snippet '$(DESTDIR)$(SYSCONFDIR)/holorc.d' || exit 1; done
	for page in man/*; do \
	    install -D -m 0644 $$page '$(DESTDIR)$(PREFIX)/share/man'/man$${page##*.}/$${page##*/} || exit 1; \
	done
	for schema in schema/*.json; do install -D -m 0644 $$schema '$(DESTDIR)$(PREFIX)/share/holo-schema'/$${schema##*/} || exit 1; done
	install -d -m 0755 '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' \
	    '$(DESTDIR)$(ZSH_COMPLETIONS)' '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	$(BUILD)/holo completion bash >'$(DESTDIR)$(PREFIX)/share/bash-completion/completions/holo'
	$(BUILD)/holo completion zsh >'$(DESTDIR)$(ZSH_COMPLETIONS)/_holo'
	$(BUILD)/holo completion fish >'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/holo.fish'
