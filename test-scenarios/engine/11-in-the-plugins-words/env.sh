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
    case "$*" in
    scan) run check ;;
    apply)
        run apply --dry-run
        run apply
        run apply word:condition
        run apply --force
        ;;
    esac
}
HOLO_BINARY=several
