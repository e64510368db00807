resources=target/usr/share/holo/files/10-ours/etc
mkdir -p "$resources"
seq 100000 >target/etc/plain
seq 100000 >target/etc/script
seq 99999 >"$resources/plain"
printf '#!/bin/sh\nsed "\$d"\n' >"$resources/script.holoscript"
chmod +x "$resources/script.holoscript"

holo=$HOLO_BINARY
large() {
    case $1 in
    scan) ;;
    diff)
        "$holo" diff | grep -c '^+[0-9]'
        ;;
    apply)
        "$holo" apply
        for path in etc var/lib/holo/files/base/etc var/lib/holo/files/provisioned/etc; do
            for name in plain script; do
                file=target/$path/$name
                echo "$(wc -l <"$file") lines up to $(tail -n 1 "$file"): $file"
            done
        done
        # The tree shall be small.
        rm -r target/etc/plain target/etc/script target/var/lib/holo/files/* "$resources/plain"
        ;;
    esac
}
HOLO_BINARY=large
