# Builds packages and a repository of them in $R/repo, and makes $R a root where pacman can install them.
set -eu
REPO=$R/repo
mkdir -p "$REPO"

# make NAME VERSION [LINES [INSTALL]]
make() {
    d=$(mktemp -d "$R/tmp/arch.XXXXXX")
    mkdir -p "$d/usr/share/$1" "$d/etc"
    echo "$2" >"$d/usr/share/$1/version"
    echo "stock $2" >"$d/etc/$1.conf"
    {
        printf 'pkgname = %s\npkgbase = %s\npkgver = %s\npkgdesc = test\nurl = x\nbuilddate = 1700000000\n' "$1" "$1" "$2"
        printf 'packager = nobody\nsize = 10\narch = any\nlicense = MIT\nbackup = etc/%s.conf\n' "$1"
        printf '%b\n' "${3:-}"
    } >"$d/.PKGINFO"
    script=
    if [ -n "${4:-}" ]; then
        printf '%s\n' "$4" >"$d/.INSTALL"
        script=.INSTALL
    fi
    (
        cd "$d"
        LC_ALL=C bsdtar -czf .MTREE --format=mtree \
            --options='!all,use-set,type,uid,gid,mode,time,size,md5,sha256,link' .PKGINFO $script usr etc
        bsdtar --uid 0 --gid 0 -cf - .MTREE .PKGINFO $script usr etc | zstd -q >"$REPO/$1-$2-any.pkg.tar.zst"
    )
    rm -rf "$d"
}

add() {
    before=$(stat -c %Y "$REPO/test.db.tar.gz" 2>/dev/null || echo 0)
    # It says one harmless thing of bash's on stderr.
    repo-add -q "$REPO/test.db.tar.gz" "$@" 2>/dev/null
    # pacman does not fetch an index of the same second again.
    if [ "$(stat -c %Y "$REPO/test.db.tar.gz")" -le "$before" ]; then
        touch -d "@$((before + 1))" "$REPO/test.db.tar.gz"
    fi
}

case ${1:-all} in
all)
    make foo 1.0-1
    make foo 1.1-1
    make bar 1.0-1 'depend = foo>=1.0'
    make baz 1.0-1
    make rival 1.0-1 'conflict = baz'
    cd "$REPO"
    add foo-1.1-1-any.pkg.tar.zst bar-*.zst baz-*.zst rival-*.zst
    mkdir -p "$R/var/lib/pacman/local" "$R/var/cache/pacman/pkg" "$R/etc/pacman.d/gnupg" "$R/var/log"
    # An older version is only had from the cache.
    cp "$REPO/foo-1.0-1-any.pkg.tar.zst" "$R/var/cache/pacman/pkg"
    printf '[options]\nArchitecture = auto\nSigLevel = Never\n[test]\nServer = file://%s\n' "$REPO" >"$R/etc/pacman.conf"
    ;;
make)
    shift
    make "$@"
    cd "$REPO"
    add "$1-$2-any.pkg.tar.zst"
    ;;
esac
