holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
several() {
    case $1 in
    scan)
        run apply
        run apply
        run apply --force
        run diff
        ;;
    esac
}
HOLO_BINARY=several
