# A year of an administrator's work.
export DEBIAN_FRONTEND=noninteractive

# The repository of a vendor, with its key and a pin.
mkdir -p /etc/apt/keyrings
cp /var/lib/vendor/vendor.gpg /etc/apt/keyrings/vendor.gpg
cat >/etc/apt/sources.list.d/vendor.sources <<'SOURCES'
Types: deb
URIs: file:/var/lib/vendor
Suites: ./
Signed-By: /etc/apt/keyrings/vendor.gpg
SOURCES
printf 'Package: *\nPin: release n=vendor\nPin-Priority: 700\n' >/etc/apt/preferences.d/vendor
apt-get -q update >/dev/null
apt-get -qy install webd jobs mailer edit-alpha edit-beta database monitor firewall privilege backup appserver toolbox \
    rotate webd-common metrics sniffer games oldmail scanner >/dev/null

# Edited within minutes, as by the first login.
sed -i 's/second = 2/second = 22/' /etc/webd/webd.conf /etc/mailer/mailer.cf /etc/metrics.conf
sed -i 's/tuned = no/tuned = yes/' /etc/webd/generated.conf
printf 'title = caf\351\n' >/etc/webd/latin.conf
: >/etc/mailer/transport
rm /etc/webd/mime.conf /etc/jobs.allow
chown webd:tls /etc/webd/tls.conf
chmod 600 /etc/webd/tls.conf
echo 'key = secret' >>/etc/webd/tls.conf
echo 'host all' >>/etc/database/access.conf
setfacl -m u:webd:r /etc/database/database.conf
chmod 600 /etc/backup.conf
chmod 700 /etc/backup
echo 'Defaults insults' >>/etc/privilege.conf
mkdir /etc/webd/sites-enabled
printf 'server {\n}\n' >/etc/webd/sites/mine
ln -s ../sites/mine /etc/webd/sites-enabled/mine
printf 'no newline at the end' >/etc/webd/conf.d/tail.conf

# Some are gone again: with their configuration, without it, and with dependencies that nobody needs any more.
apt-get -qy remove metrics sniffer oldmail >/dev/null
apt-get -qy purge games >/dev/null
apt-get -qy autoremove --purge scanner >/dev/null
apt-mark hold firewall >/dev/null
update-alternatives --quiet --set edit-it /usr/bin/edit-beta

# Files of packages with another owner and mode, and with others in their place.
dpkg-statoverride --update --add root adm 0750 /usr/bin/edit-alpha
dpkg-divert --quiet --local --rename --divert /usr/bin/toolbox.real --add /usr/bin/toolbox
printf '#!/bin/sh\nexec /usr/bin/toolbox.real --verbose\n' >/usr/bin/toolbox
chmod 755 /usr/bin/toolbox
dpkg-divert --quiet --local --rename --divert /etc/rotate.d/base.distrib --add /etc/rotate.d/base
echo 'rotate weekly' >/etc/rotate.d/base

# Accounts.
groupadd --gid 1600 crew
useradd --create-home --uid 1601 --groups crew --comment 'Jane Doe' --shell /bin/bash jane
useradd --create-home --home-dir /srv/home/bob --uid 1602 --gid crew --no-user-group --shell /bin/sh bob
useradd --system --home-dir /srv/deploy --shell /usr/sbin/nologin deploy
usermod --append --groups crew webd
usermod --append --groups crew,tls www-data
echo 'jane:secret' | chpasswd --crypt-method SHA512
chage --maxdays 90 --warndays 14 --inactive 30 --expiredate 2030-01-01 jane
chage --expiredate 2031-12-31 deploy
chage --mindays 1 webd
install -d -m 700 -o jane -g jane /home/jane/.ssh
echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w jane@laptop' >/home/jane/.ssh/authorized_keys
echo 'restrict ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP backup' >>/home/jane/.ssh/authorized_keys
chown jane:jane /home/jane/.ssh/authorized_keys
chmod 600 /home/jane/.ssh/authorized_keys
install -d -m 700 /root/.ssh
echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP backup' >/root/.ssh/authorized_keys
chmod 600 /root/.ssh/authorized_keys
echo 'alias ll="ls -l"' >>/home/jane/.bashrc
mkdir -p /home/jane/.config/app
echo 'private' >/home/jane/.config/app/notes
chown -R jane:jane /home/jane/.config
chmod 600 /home/jane/.config/app/notes
echo 'set number' >/root/.vimrc
echo 'alias ll="ls -l"' >>/root/.bashrc
mkdir /root/bin
printf '#!/bin/sh\nexec true\n' >/root/bin/report
chmod 700 /root/bin/report

# Jobs of users.
echo '@daily true' >/var/spool/cron/crontabs/root
echo '@hourly true' >/var/spool/cron/crontabs/jane
chown root:crontab /var/spool/cron/crontabs/root
chown jane:crontab /var/spool/cron/crontabs/jane
chmod 600 /var/spool/cron/crontabs/*
printf '#!/bin/sh\nexit 0\n' >/etc/cron.daily/cleanup
chmod 755 /etc/cron.daily/cleanup
echo '5 4 * * * root true' >/etc/cron.d/nightly

# The system.
ln -sf /usr/share/zoneinfo/Europe/Berlin /etc/localtime
echo Europe/Berlin >/etc/timezone
echo 'de_DE.UTF-8 UTF-8' >>/etc/locale.gen
locale-gen >/dev/null
echo 'LANG=C.UTF-8' >/etc/default/locale
echo EDITOR=vim >>/etc/environment
echo '192.0.2.1 gateway' >>/etc/hosts
echo 'Welcome' >/etc/motd
mkdir -p /etc/sudoers.d /etc/sysctl.d /etc/modules-load.d
echo '%crew ALL=(ALL) ALL' >/etc/sudoers.d/crew
chmod 440 /etc/sudoers.d/crew
echo 'vm.swappiness = 10' >/etc/sysctl.d/90-local.conf
echo loop >/etc/modules-load.d/local.conf
echo 'd /run/site 0755 root root -' >/etc/tmpfiles.d/site.conf
echo 'umask 027' >/etc/profile.d/umask.sh

# Units.
cat >/etc/systemd/system/ticker.service <<'UNIT'
[Service]
User=deploy
ExecStart=/usr/local/bin/ticker
[Install]
WantedBy=multi-user.target
UNIT
printf '#!/bin/sh\nexec sleep 86400\n' >/usr/local/bin/ticker
chmod 755 /usr/local/bin/ticker
printf '[Service]\nExecStart=/bin/sleep %%i\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/worker@.service
printf '[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n' >/etc/systemd/system/report.timer
printf '[Service]\nType=oneshot\nExecStart=/bin/true\n' >/etc/systemd/system/report.service
mkdir -p /etc/systemd/system/webd.service.d /etc/systemd/user
printf '[Service]\nNice=5\n' >/etc/systemd/system/webd.service.d/override.conf
sed 's/86400/43200/' /usr/lib/systemd/system/mailer.service >/etc/systemd/system/mailer.service
printf '[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=default.target\n' >/etc/systemd/user/greet.service
systemctl daemon-reload
systemctl restart webd mailer
systemctl enable --quiet --now ticker worker@77777.service report.timer
systemctl --global enable --quiet greet.service
systemctl disable --quiet --now monitor fstrim.timer
systemctl disable --quiet --now appserver
systemctl mask --quiet appserver getty@tty5.service
systemctl set-default --quiet graphical.target
mkdir -p /opt/app
printf '[Service]\nType=oneshot\nExecStart=/bin/true\n' >/opt/app/linked.service
systemctl link --quiet /opt/app/linked.service

# Files with special modes, owners and ACLs.
printf '#!/bin/sh\n' >/usr/local/bin/elevate
chgrp crew /usr/local/bin/elevate
chmod 4750 /usr/local/bin/elevate
cp /bin/true /usr/local/bin/listen
setcap cap_net_bind_service=ep /usr/local/bin/listen
mkdir -p /srv/share /srv/drop /srv/www
chmod 1777 /srv/drop
chown jane:crew /srv/share
chmod 2775 /srv/share
setfacl -m u:webd:rx,d:g:crew:rwx /srv/share
echo shared >/srv/share/file
setfacl -m u:webd:rw /srv/share/file
setfattr -n user.origin -v upload /srv/share/file
echo hello >/srv/www/index.html
echo 4242 >/srv/www/numbered
chown 4242:4243 /srv/www/numbered
ln /srv/www/index.html /srv/www/hard.html
mkfifo /srv/www/queue
ln -s /nowhere /srv/www/dangling
truncate -s 17M /srv/disk.img
printf x | dd of=/srv/disk.img bs=1 seek=9000000 conv=notrunc 2>/dev/null

# Software by hand, with links into it.
mkdir -p /opt/app/1.0/bin /opt/app/1.1/bin
printf '#!/bin/sh\necho 1.1\n' >/opt/app/1.1/bin/app
chmod 755 /opt/app/1.1/bin/app
ln -s 1.1 /opt/app/current
ln -s /opt/app/current/bin/app /usr/local/bin/app
echo 'allow ssh' >/opt/app/rules
ln -sf /opt/app/rules /etc/firewall/rules
git -c init.defaultBranch=main init -q --template= /srv/site
echo site >/srv/site/page
git -C /srv/site add page
git -C /srv/site -c user.name=jane -c user.email=jane@example.org commit -q -m 'The page'
chown -R deploy /srv/site

# Odd names.
mkdir /etc/odd
for name in 'with space' ' leading' 'trailing ' "quo'te" 'quo"te' 'back\slash' 'st*ar' '[group]' '#hash' '$dollar' 'ü' '-dash' \
    'x.toml' 'x.holoscript' 'x.holotemplate' 'x.holopatch' '.hidden' "$(printf 'new\nline')" "$(printf 'caf\351')"; do
    printf '%s\n' "$name" >"/etc/odd/$name"
done
: >/etc/odd/empty
ln -s "$(printf 'caf\351')" /etc/odd/to-latin
