# Builds packages and a repository of them in $R/repo, and makes $R a root where dnf and zypper can install them.
set -eu
REPO=$R/repo
mkdir -p "$REPO" "$R/tmp/build"

# make NAME VERSION RELEASE [EPOCH [LINES [POST]]]
make() {
    spec=$R/tmp/build/$1.spec
    cat >"$spec" <<END
Name: $1
Epoch: ${4:-0}
Version: $2
Release: $3
Summary: test
License: MIT
BuildArch: noarch
$(printf '%b' "${5:-}")
%description
test
%install
mkdir -p %{buildroot}/usr/share/$1 %{buildroot}/etc
echo $2-$3 >%{buildroot}/usr/share/$1/version
echo stock $2 >%{buildroot}/etc/$1.conf
%files
/usr/share/$1
%config(noreplace) /etc/$1.conf
${6:-}
END
    rpmbuild -bb --quiet --define "_topdir $R/tmp/build" --define "_rpmdir $REPO" --define "_dbpath $R/tmp/build/db" \
        --define '_binary_payload w0.gzdio' "$spec" >/dev/null 2>"$R/tmp/build/errors" || { cat "$R/tmp/build/errors"; exit 1; }
}

index() {
    createrepo_c -q "$REPO"
}

case ${1:-all} in
all)
    make foo 1.0 1
    make foo 1.1 1
    make foo 0.9 1 2
    make bar 1.0 1 0 'Requires: foo >= 1.0'
    make baz 1.0 1
    make rival 1.0 1 0 'Conflicts: baz'
    make heir 1.0 1 0 'Obsoletes: baz < 2\nProvides: baz = 2'
    make old 1.0 1 0 'Requires: foo = 1.0'
    make a-package-with-a-name-that-is-much-too-long-for-any-column-of-a-table 1.0 1
    make broken 1.0 1 0 '' '%pre -p <lua>
error("it is broken by design")'
    index
    mkdir -p "$R/etc/dnf" "$R/etc/yum.repos.d" "$R/etc/zypp/repos.d"
    printf '[main]\ngpgcheck=0\nmetadata_expire=0\n' >"$R/etc/dnf/dnf.conf"
    # Version 5 has locks without a plugin.
    if [ "$(basename "$(readlink -f "$(command -v dnf || echo dnf)")")" != dnf5 ]; then
        mkdir -p "$R/etc/dnf/plugins"
        printf 'pluginconfpath=%s/etc/dnf/plugins\n' "$R" >>"$R/etc/dnf/dnf.conf"
        printf '[main]\nenabled=1\nlocklist=%s/etc/dnf/plugins/versionlock.list\n' "$R" >"$R/etc/dnf/plugins/versionlock.conf"
        touch "$R/etc/dnf/plugins/versionlock.list"
    fi
    printf '[test]\nname=test\nbaseurl=file://%s\nenabled=1\ngpgcheck=0\n' "$REPO" >"$R/etc/yum.repos.d/test.repo"
    cp "$R/etc/yum.repos.d/test.repo" "$R/etc/zypp/repos.d/test.repo"
    ;;
make)
    shift
    make "$@"
    index
    ;;
esac
