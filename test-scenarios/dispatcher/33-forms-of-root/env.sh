holo=$HOLO_BINARY

# Shows a command, what it prints, and its exit status.
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
several() {
    case $1 in
    scan)
        with_root target
        with_root ././target//usr/..
        with_root ../33-forms-of-root/target
        with_root ./target/nowhere/
        ;;
    esac
}
with_root() {
    echo "HOLO_ROOT_DIR=$1"
    HOLO_ROOT_DIR=$1 run scan
}
HOLO_BINARY=several
