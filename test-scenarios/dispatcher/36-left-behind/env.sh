holo=$HOLO_BINARY
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
