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
        run scan
        run scan --short
        run scan --porcelain
        run scan -p b:full
        run scan b:full -s
        run scan a:plain --porcelain
        ;;
    esac
}
HOLO_BINARY=several
