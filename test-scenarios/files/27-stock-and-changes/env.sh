holo=$HOLO_BINARY
# Shows the base between the runs.
with_base() {
    "$holo" "$@"
    if [ "$1" = apply ]; then
        grep -r . target/var/lib/holo/files/base | LC_ALL=C sort
        ls target/etc
    fi
}
HOLO_BINARY=with_base
