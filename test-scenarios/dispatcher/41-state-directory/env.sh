holo=$HOLO_BINARY

# Shows a command, what it prints, and its exit status.
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}

# Is run in place of the usual command.
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
