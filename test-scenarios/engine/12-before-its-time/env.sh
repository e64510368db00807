holo=$HOLO_BINARY

# Shows a command, what it prints, its exit status, and what it has changed.
run() {
    echo "\$ holo $*"
    find target ! -path 'target/tmp*' -printf '%p %m %s %T@\n' | sort >target/tmp/before
    "$holo" "$@"
    echo "exit status $?"
    find target ! -path 'target/tmp*' -printf '%p %m %s %T@\n' | sort | diff target/tmp/before - >/dev/null || echo 'something was changed'
    rm target/tmp/before
}

# Is run in place of the usual command.
several() {
    case $1 in
    scan)
        # Makes the directories that plugins have their state in.
        "$holo" scan >/dev/null 2>&1
        run check
        run apply --dry-run --json user:fred file:/etc/his
        # Without him nothing comes first.
        run check file:/etc/his
        ;;
    esac
}
HOLO_BINARY=several
