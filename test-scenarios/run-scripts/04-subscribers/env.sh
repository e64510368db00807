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
        echo "# It fails, and so the refresh stays due."
        run apply
        run apply
        echo "# It succeeds, and then there is nothing to do."
        echo 0 >target/etc/status
        run apply
        run apply
        echo "# What it subscribes to changes."
        echo more >>target/usr/share/holo/files/01-x/etc/motd
        run apply
        run apply
        echo "# Its content changes."
        echo "# more" >>target/usr/share/holo/run-scripts/on-motd
        run check
        run apply
        run check
        echo "# It is asked for, but there is no reason."
        run apply --force script:on-motd
        echo "# It goes, and comes back when another one has succeeded."
        mv target/usr/share/holo/run-scripts/on-motd target/tmp/
        printf '#!/bin/sh\n# holo: subscribes file:/etc/issue\n' >target/usr/share/holo/run-scripts/other
        chmod +x target/usr/share/holo/run-scripts/other
        run apply
        mv target/tmp/on-motd target/usr/share/holo/run-scripts/
        run apply
        ;;
    esac
}
HOLO_BINARY=several
