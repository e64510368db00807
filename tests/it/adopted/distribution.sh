# Makes the distribution of both machines: a system without unrelated files of the test machine, a few files of its own, and
# a signed repository with its key in /var/lib/vendor.
rm -rf /usr/local /opt /srv /home /root /etc/holo* /etc/apt/sources.list.d /var/lib/apt/lists /var/spool/cron /var/cache/apt/archives
rm -f /etc/*.bak /etc/apt/preferences.d/* /etc/resolv.conf
mkdir -p /usr/local/bin /opt /srv /home /root /etc/apt/sources.list.d /var/lib/apt/lists/partial /var/spool/cron /var/cache/apt/archives/partial
chmod 700 /root
cp /usr/share/base-files/dot.bashrc /root/.bashrc
cp /usr/share/base-files/dot.profile /root/.profile
: >/etc/apt/sources.list
