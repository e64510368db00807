holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
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
