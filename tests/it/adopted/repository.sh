# Builds the packages of the repository in /var/lib/vendor, and signs it.
mkdir -p /var/lib/vendor /tmp/build
cd /tmp/build

# Begins a package: its name, version, dependencies, and configuration files.
package() {
    name=$1 version=$2 depends=$3; shift 3
    tree=/tmp/build/$name
    rm -rf $tree
    mkdir -p $tree/DEBIAN $tree/usr/share/$name
    echo "$name $version" >$tree/usr/share/$name/data
    printf '%s\n' "Package: $name" "Version: $version" 'Architecture: all' 'Maintainer: Nobody <nobody@example.org>' \
        ${depends:+"Depends: $depends"} "Description: $name" >$tree/DEBIAN/control
    for conffile; do
        mkdir -p "$tree$(dirname $conffile)"
        printf '# %s\nfirst = 1\nsecond = 2\nthird = 3\nfourth = 4\n' $conffile >$tree$conffile
        echo $conffile >>$tree/DEBIAN/conffiles
    done
}

# Writes a maintainer script from stdin.
script() {
    { printf '#!/bin/sh\nset -e\n'; cat; } >$tree/DEBIAN/$1
    chmod 755 $tree/DEBIAN/$1
}

# Adds a service that sleeps, and enables it when the package is installed, in the way of debhelper: a unit that is masked is no error.
service() {
    mkdir -p $tree/usr/lib/systemd/system
    printf '[Service]\nExecStart=/bin/sleep 86400\n[Install]\nWantedBy=multi-user.target\n' >$tree/usr/lib/systemd/system/$name.service
    script postinst <<POSTINST
$(cat)
deb-systemd-helper enable $name.service >/dev/null || true
systemctl daemon-reload
systemctl start $name.service || true
POSTINST
    script prerm <<PRERM
if [ "\$1" = remove ]; then systemctl stop $name.service; fi
PRERM
    script postrm <<POSTRM
if [ "\$1" = remove ]; then deb-systemd-helper mask $name.service >/dev/null; fi
if [ "\$1" = purge ]; then deb-systemd-helper purge $name.service >/dev/null; deb-systemd-helper unmask $name.service >/dev/null; fi
systemctl daemon-reload
POSTRM
}

finish() {
    dpkg-deb --root-owner-group -Znone --build $tree /var/lib/vendor/${name}_${version}_all.deb >/dev/null &
}

package libfast 2.1-1 ''
finish
package webd-common 1.0-1 libfast
finish
package webd 1.0-1 webd-common /etc/webd/webd.conf /etc/webd/mime.conf /etc/webd/latin.conf /etc/webd/tls.conf /etc/webd/sites/default
mkdir $tree/etc/webd/conf.d
service <<'POSTINST'
getent passwd webd >/dev/null || useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin webd
getent group tls >/dev/null || groupadd --system tls
test -e /etc/webd/generated.conf || { echo 'generated = yes'; echo 'tuned = no'; } >/etc/webd/generated.conf
POSTINST
finish
package jobs 3.0 '' /etc/jobs.allow /etc/default/jobs
service <<'POSTINST'
getent group crontab >/dev/null || groupadd --system crontab
mkdir -p /var/spool/cron/crontabs
chown root:crontab /var/spool/cron/crontabs
chmod 1730 /var/spool/cron/crontabs
POSTINST
finish
package mailer 4.2-1 '' /etc/mailer/mailer.cf /etc/mailer/transport
service </dev/null
finish
for which in alpha beta; do
    package edit-$which 1.0 ''
    mkdir -p $tree/usr/bin
    printf '#!/bin/sh\necho %s\n' $which >$tree/usr/bin/edit-$which
    chmod 755 $tree/usr/bin/edit-$which
    priority=$([ $which = alpha ] && echo 50 || echo 10)
    echo "update-alternatives --quiet --install /usr/bin/edit-it edit-it /usr/bin/edit-$which $priority" | script postinst
    echo "if [ \"\$1\" = remove ]; then update-alternatives --quiet --remove edit-it /usr/bin/edit-$which; fi" | script prerm
    finish
done
package database 15.3-1 libfast /etc/database/database.conf /etc/database/access.conf
service <<'POSTINST'
getent passwd database >/dev/null || useradd --system --home-dir /var/lib/database --shell /bin/sh database
chown root:database /etc/database/access.conf
chmod 640 /etc/database/access.conf
POSTINST
finish
package monitor 0.9 '' /etc/monitor.conf
service </dev/null
finish
package firewall 1.2 '' /etc/firewall/rules /etc/firewall/zones
finish
package privilege 1.9 '' /etc/privilege.conf
chmod 440 $tree/etc/privilege.conf
mkdir -m 750 $tree/etc/privilege.d
finish
package backup 2.0 '' /etc/backup.conf /etc/backup/hosts
finish
package appserver 7.0 webd-common /etc/appserver/server.xml
service </dev/null
finish
package toolbox 1.0 ''
mkdir -p $tree/usr/bin
printf '#!/bin/sh\nexit 0\n' >$tree/usr/bin/toolbox
chmod 755 $tree/usr/bin/toolbox
finish
package rotate 3.1 '' /etc/rotate.conf /etc/rotate.d/base
finish
package metrics 1.0 libfast /etc/metrics.conf /etc/metrics/extra.conf
service </dev/null
finish
package sniffer 1.0 '' /etc/sniffer.conf
finish
package games 1.0 '' /etc/games.conf
finish
package oldmail 1.0 '' /etc/oldmail.conf
finish
package scanner 1.0 libscan /etc/scanner.conf
finish
package libscan 1.0 ''
finish
wait
cd /var/lib/vendor
apt-ftparchive packages . >Packages
apt-ftparchive -o APT::FTPArchive::Release::Suite=vendor release . >/tmp/build/Release
mv /tmp/build/Release .
export GNUPGHOME=/tmp/build/keys
mkdir -m 700 $GNUPGHOME
gpg --batch --quiet --pinentry-mode loopback --passphrase '' --quick-generate-key vendor@example.org ed25519 sign never 2>/dev/null
gpg --batch --quiet --clearsign --output InRelease Release
gpg --batch --quiet --export >/tmp/build/vendor.gpg
mv /tmp/build/vendor.gpg vendor.gpg
gpgconf --kill all
rm -rf /tmp/build
