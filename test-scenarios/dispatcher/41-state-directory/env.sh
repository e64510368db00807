holo=$HOLO_BINARY
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
several() {
    case $1 in
    apply)
        run apply
        run apply
        stat -c "%a %n" target/var/lib/holo/demo target/var/lib/holo/idle
        ;;
    esac
}
HOLO_BINARY=several
