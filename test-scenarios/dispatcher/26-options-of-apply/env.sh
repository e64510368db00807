holo=$HOLO_BINARY

# Shows a command, what it prints, and its exit status.
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}

# Is run in place of the usual command.
several() {
    case $1 in
    scan)
        run apply demo:a
        run apply -f demo:a
        run apply demo:a -f
        run apply demo:a --force demo:b
        run apply --force demo --exit-zero
        run apply --no-such-thing
        ;;
    esac
}
HOLO_BINARY=several
