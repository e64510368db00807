holo=$HOLO_BINARY

# Shows a command, what it prints, and its exit status.
run() {
    echo "\$ holo $*"
    "$holo" "$@"
    echo "exit status $?"
}
look() {
    echo "$(stat -c %a target/etc/deep/file 2>/dev/null) $(cat target/etc/deep/file 2>/dev/null)"
    (cd target/var/lib/holo/files && find . -type f | LC_ALL=C sort)
}
life() {
    [ "$1" = scan ] || return 0
    resource=target/usr/share/holo/files/10-a/etc/deep/file
    run apply
    look
    echo 'newer' >"$resource"
    run diff
    run apply
    look
    echo 'mine' >>target/etc/deep/file
    run diff
    run apply
    run apply -f
    look
    rm target/etc/deep/file
    run apply
    run apply -f
    look
    rm "$resource"
    run scan
    run apply
    look
    run apply
}
HOLO_BINARY=life
