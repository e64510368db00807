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
        run scan -s demo:b
        run scan -s other
        run scan -s target/usr/share/holo/demo/c
        run scan -s target/usr/share/holo/demo/all
        run scan -s other:c demo:c other:a
        run scan -s demo demo:a target/usr/share/holo/demo/a
        run scan -s
        ;;
    esac
}
HOLO_BINARY=several
