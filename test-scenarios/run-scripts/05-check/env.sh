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
        run check
        run check --json script:always
        run apply --dry-run
        ls target/etc
        run apply
        run check
        ;;
    esac
}
HOLO_BINARY=several
