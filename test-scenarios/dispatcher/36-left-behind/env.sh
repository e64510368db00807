holo=$HOLO_BINARY

# Shows a command, what it prints, and its exit status.
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
listed() {
    "$holo" "$@"
    "$holo" "$@" demo:unknown 2>/dev/null
    ls target/tmp target/run
}
HOLO_BINARY=listed
