rmdir target/usr/share/holo/first target/usr/share/holo/third
