holo=$HOLO_BINARY
with_locks() {
    if [ "$1" != apply ]; then
        # Neither a scan nor a diff minds.
        echo 0 >target/run/holo.pid
        "$holo" "$@"
        return
    fi
    # A process that may be another version of Holo, as its name says.
    ln -s "$(command -v sleep)" target/tmp/holo
    target/tmp/holo 60 &
    other=$!
    for content in "$other" 0 -1 garbage ''; do
        printf '%s' "$content" >target/run/holo.pid
        "$holo" "$@"
        echo "exit status $?"
        [ "$content" = "$(cat target/run/holo.pid)" ] || echo 'The lock was touched.'
    done
    kill "$other"
    rm target/tmp/holo
    echo garbage >target/run/holo.pid
}
HOLO_BINARY=with_locks
