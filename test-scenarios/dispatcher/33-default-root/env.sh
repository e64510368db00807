holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
several() {
    case $1 in
    scan)
        HOLO_ROOT_DIR=target run scan
        HOLO_ROOT_DIR=././target//usr/.. run scan
        HOLO_ROOT_DIR=../33-default-root/target run scan
        HOLO_ROOT_DIR=./target/nowhere/ run scan
        ;;
    esac
}
HOLO_BINARY=several
