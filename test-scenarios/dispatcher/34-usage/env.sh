holo=$HOLO_BINARY
usage() {
    echo "\$ holo $*"
    "$holo" "$@" >target/stdout 2>target/stderr
    echo "exit status $?"
    for stream in stdout stderr; do
        case $(head -n 1 target/$stream),$(grep -c '^Usage:' target/$stream) in
        ,0) ;;
        *,0) echo "something on $stream" ;;
        Usage:*) echo "the usage on $stream" ;;
        *) echo "the usage on $stream, and why" ;;
        esac
        rm target/$stream
    done
}
several() {
    case $1 in
    scan)
        usage
        usage help
        usage --help
        usage frobnicate
        usage Scan
        usage selectors demo
        ;;
    diff)
        "$holo" version | sed -E 's/^[0-9]+\.[0-9]+\.[0-9]+.*$/VERSION/'
        "$holo" --version | sed -E 's/^[0-9]+\.[0-9]+\.[0-9]+.*$/VERSION/'
        ;;
    esac
}
HOLO_BINARY=several
