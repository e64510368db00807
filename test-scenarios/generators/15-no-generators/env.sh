rmdir target/usr/share/holo/generators
