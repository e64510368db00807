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
