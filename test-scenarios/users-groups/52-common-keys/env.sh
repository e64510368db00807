unset HOLO_EXIT_ZERO
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
        run scan -s
        run graph
        run check
        run apply
        ;;
    esac
}
HOLO_BINARY=several
