holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
several() {
    case $1 in
    scan)
        run selectors
        run selectors demo 2>/dev/null
        ;;
    esac
}
HOLO_BINARY=several
