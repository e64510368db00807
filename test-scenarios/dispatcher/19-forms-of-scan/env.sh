holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
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
