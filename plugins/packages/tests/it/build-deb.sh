# Builds packages and a repository of them in $R/repo, and makes $R a root where apt can install them.
set -eu
REPO=$R/repo
mkdir -p "$REPO/pool"

# make NAME VERSION [ARCH [CONTROL-LINES [POSTINST [TEMPLATES]]]]; $EXTRA is a directory with other control files.
make() {
    d=$(mktemp -d "$R/tmp/deb.XXXXXX")
    mkdir -p "$d/DEBIAN" "$d/usr/share/doc/$1" "$d/etc"
    chmod -R 755 "$d"
    arch=${3:-all}
    echo "$2" >"$d/usr/share/doc/$1/version-$arch"
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$1" "$2" "$arch" >"$d/DEBIAN/control"
    printf 'Maintainer: Nobody <nobody@example.org>\nSection: misc\nPriority: optional\nDescription: test\n' >>"$d/DEBIAN/control"
    if [ -n "${4:-}" ]; then printf "$4\n" >>"$d/DEBIAN/control"; fi
    if [ "$arch" = all ]; then
        echo "stock $2" >"$d/etc/$1.conf"
        echo "/etc/$1.conf" >"$d/DEBIAN/conffiles"
    fi
    if [ -n "${5:-}" ]; then
        printf '#!/bin/sh\n%s\n' "$5" >"$d/DEBIAN/postinst"
        chmod 755 "$d/DEBIAN/postinst"
    fi
    if [ -n "${EXTRA:-}" ]; then cp -R "$EXTRA/." "$d/DEBIAN"; fi
    if [ -n "${6:-}" ]; then
        printf "$6\n" >"$d/DEBIAN/templates"
        # Every question is asked, of nobody.
        {
            printf '#!/bin/sh\nset -e\n. /usr/share/debconf/confmodule\n'
            sed -n 's/^Template: \(.*\)/db_input high \1 || true/p' "$d/DEBIAN/templates"
            echo 'db_go || true'
        } >"$d/DEBIAN/config"
        chmod 755 "$d/DEBIAN/config"
    fi
    dpkg-deb --root-owner-group -Znone -b "$d" "$REPO/pool/$1_$(echo "$2" | tr : %)_$arch.deb" >/dev/null
    rm -rf "$d"
}

index() {
    cd "$REPO"
    apt-ftparchive packages pool >Packages
    apt-ftparchive -o APT::FTPArchive::Release::Suite=test -o APT::FTPArchive::Release::Codename=test release . >Release.new
    mv Release.new Release
}

# Makes a repository $R/signed with a suite and a component, which has one package, and $R/example.asc, the key that it is signed by.
sign() {
    REPO=$R/signed
    mkdir -p "$REPO/pool" "$REPO/dists/stable/main/binary-amd64"
    make tool 1.0
    cd "$REPO"
    apt-ftparchive packages pool >dists/stable/main/binary-amd64/Packages
    cd dists/stable
    apt-ftparchive -o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Codename=stable \
        -o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures=amd64 release . >../Release
    mv ../Release Release
    GNUPGHOME=$(mktemp -d)
    export GNUPGHOME
    gpg --batch --quiet --passphrase '' --quick-generate-key test@example.org ed25519 sign never 2>/dev/null
    gpg --batch --quiet --clearsign --output InRelease Release
    gpg --batch --quiet --armor --export >"$R/example.asc"
    gpgconf --kill all
    rm -rf "$GNUPGHOME"
}

case ${1:-all} in
all)
    for version in 0.9~rc1 1.0 1.1 2:0.9; do make foo $version; done
    make bar 1.0 all 'Depends: foo (>= 1.0)'
    make baz 1.0
    make old 1.0 all 'Depends: foo (= 1.0)'
    make rival 1.0 all 'Conflicts: baz'
    make plus++ 1.0
    make plus 1.0
    make broken 1.0 all '' 'test -e "$DPKG_ROOT/mended" || { echo "it is broken by design"; exit 3; }'
    make slow 1.0 all '' 'touch "$DPKG_ROOT/slow-begun"; sleep 2'
    make slower 1.0 all '' 'touch "$DPKG_ROOT/slower-begun"; sleep 6'
    for arch in amd64 i386; do make multi 1.0 $arch 'Multi-Arch: same'; done
    index
    mkdir -p "$R"/etc/apt/apt.conf.d "$R"/etc/apt/preferences.d "$R"/var/lib/dpkg/info "$R"/var/lib/dpkg/updates \
        "$R"/var/lib/dpkg/triggers "$R"/var/lib/apt/lists/partial "$R"/var/cache/apt/archives/partial "$R"/var/log/apt
    touch "$R/var/lib/dpkg/status"
    printf 'amd64\ni386\n' >"$R/var/lib/dpkg/arch"
    echo "deb [trusted=yes] copy:$REPO ./" >"$R/etc/apt/sources.list"
    # There is no shell below the root that maintainer scripts could be run with.
    cat >"$R/etc/apt/apt.conf.d/50test" <<END
APT::Architecture "amd64";
APT::Architectures { "amd64"; "i386"; };
APT::Sandbox::User "root";
APT::Update::Pre-Invoke { "echo updated >>$R/updates"; };
Acquire::Languages "none";
DPkg::Options:: "--force-script-chrootless";
END
    ;;
index)
    index
    ;;
sign)
    sign
    ;;
make)
    shift
    make "$@"
    index
    ;;
esac
