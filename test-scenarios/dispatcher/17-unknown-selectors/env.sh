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
        run scan a demo:a nobody
        run scan ""
        run apply demo:a demo:b
        run diff demo:b
        run apply demo:a --farce
        ;;
    esac
}
HOLO_BINARY=several
