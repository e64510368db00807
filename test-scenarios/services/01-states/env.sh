# Run in place of the usual command.
several() {
    "$holo" "$@"
    echo "exit status $?"
    [ "$1" != apply ] || { echo "\$ holo apply, again"; "$holo" apply; echo "exit status $?"; "$holo" check; }
}
holo=$HOLO_BINARY
HOLO_BINARY=several
