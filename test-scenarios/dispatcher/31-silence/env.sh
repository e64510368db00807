holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
several() {
    case $1 in
    scan)
        run scan demo 2>/dev/null
        run scan -s quiet
        run apply
        run diff
        ;;
    esac
}
HOLO_BINARY=several
# `demo` names nothing here, as a plugin without entities selects nothing.
