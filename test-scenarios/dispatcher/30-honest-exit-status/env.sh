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
        run apply demo:a-fine demo:b-changed
        run apply demo:c-fails
        run apply demo:d-needs-force
        run apply --force demo:d-needs-force
        run apply --exit-zero
        export HOLO_EXIT_ZERO=1
        echo "# HOLO_EXIT_ZERO=1"
        run apply demo:c-fails
        export HOLO_EXIT_ZERO=0
        echo "# HOLO_EXIT_ZERO=0"
        run apply demo:c-fails
        run diff demo:a-fine
        run diff
        run diff --exit-zero
        run apply --exit-zero demo:none
        export HOLO_EXIT_ZERO=1
        echo "# HOLO_EXIT_ZERO=1"
        run diff
        run scan demo:c-fails
        ;;
    esac
}
HOLO_BINARY=several
