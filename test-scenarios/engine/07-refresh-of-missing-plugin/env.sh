unset HOLO_EXIT_ZERO
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
    scan)
        run apply
        mv target/etc/holorc target/etc/saved; echo 'plugin files' >target/etc/holorc; echo 'plugin hooks=nowhere' >>target/etc/holorc
        run apply
        mv target/etc/saved target/etc/holorc; printf '# subscribes file:/etc/motd\necho refreshed\n' >target/usr/share/holo/hooks/on-motd
        run apply
        run apply
        ;;
    esac
}
HOLO_BINARY=several
