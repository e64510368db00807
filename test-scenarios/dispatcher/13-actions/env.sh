holo=$HOLO_BINARY
# The report in its own form too.
with_porcelain() {
    "$holo" "$@"
    if [ "$1" = scan ]; then
        "$holo" scan --porcelain
    fi
}
HOLO_BINARY=with_porcelain
