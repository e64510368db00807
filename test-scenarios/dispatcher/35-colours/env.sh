holo=$HOLO_BINARY
coloured() {
    CLICOLOR_FORCE=1 "$holo" "$@" 2>&1 | cat -v
    return "${PIPESTATUS[0]}"
}
HOLO_BINARY=coloured
