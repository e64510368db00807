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
        run selectors
        run scan -s target/usr/share/holo/generators/10-one
        run scan -s target/usr/share/holo/generators/20-two::demo/c
        run scan -s target/usr/share/holo/generators/10-one target/usr/share/holo/generators/20-two
        run scan -s target/usr/share/holo/generators/10-one::demo/b demo:c
        run scan -s target/usr/share/holo/demo/static
        run scan -s target/usr/share/holo/demo/a
        run scan -s target/usr/share/holo/generators/20-two::demo/a
        ;;
    esac
}
HOLO_BINARY=several
