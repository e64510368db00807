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
        run scan -s target/usr/share/holo/files/20-y/etc/a.holoscript
        run scan file:/etc/c
        run apply file:/etc/b
        run scan -p files
        run scan -s /etc/a
        ;;
    esac
}
HOLO_BINARY=several
