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
        run apply --force
        ;;
    esac
}
HOLO_BINARY=several
