holo=$HOLO_BINARY
with_locks() {
    if [ "$1" != apply ]; then
        # Neither a scan nor a diff minds.
        echo 0 >target/run/holo.pid
        "$holo" "$@"
        return
    fi
    for content in "$$" 0 -1 garbage ''; do
        printf '%s' "$content" >target/run/holo.pid
        "$holo" "$@"
        echo "exit status $?"
        [ "$content" = "$(cat target/run/holo.pid)" ] || echo 'The lock was touched.'
    done
    echo garbage >target/run/holo.pid
}
HOLO_BINARY=with_locks
